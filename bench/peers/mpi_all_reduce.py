#!/usr/bin/env python3
"""Times OpenMPI's all-reduce among processes of this machine, over TCP or shared memory.

    apt-get install libopenmpi-dev openmpi-bin
    python3 bench/peers/mpi_all_reduce.py --processes=2 --mib=1,16,256 --over=tcp

One line a size, under the name of the case of bench/net_all_reduce.cc. The value is bytes of the tensor a second, by the
lower quartile of the times of the slowest process, as there.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import step_report

_TRANSPORTS = {"tcp": "tcp,self", "shared_memory": "vader,self"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mib", default="1,16,256", help="sizes of the tensor")
    parser.add_argument("--over", choices=sorted(_TRANSPORTS), default="tcp")
    options = parser.parse_args()
    compiler, mpirun = shutil.which("mpicc"), shutil.which("mpirun")
    if not compiler or not mpirun:
        step_report.missing("mpi_all_reduce", "no mpicc or no mpirun", "apt-get install libopenmpi-dev openmpi-bin")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "mpi_all_reduce")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_all_reduce.c")
        subprocess.run([compiler, "-O2", "-o", program, source], check=True)
        command = [mpirun, "-n", str(options.processes), "--oversubscribe", "--mca", "btl", _TRANSPORTS[options.over]]
        command += ["--mca", "pml", "ob1"]
        if options.processes > len(os.sched_getaffinity(0)):
            command += ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        if options.over == "tcp":
            command += ["--mca", "btl_tcp_if_include", "lo"]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        return subprocess.run(command + [program] + options.mib.split(","), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
