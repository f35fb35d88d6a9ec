"""Writes records/ beside this file with code that is not ours, and reads what ours wrote.

  python3 records_golden.py write                 golden.tfrecord by the package tfrecord 1.14, part-00000 by protobuf's own Python
  python3 records_golden.py read FILE.tfrecord    prints the features of every record, checksums checked

Needs protoc and the packages tfrecord, crc32c and protobuf.
"""

import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PICTURE = b"\xff\xd8\xff\x00picture"


def write_tfrecord(path):
    from tfrecord.writer import TFRecordWriter
    writer = TFRecordWriter(path)
    for record in range(2):
        writer.write({"encoded": (PICTURE, "byte"), "class/label": (-7 + record, "int"), "ids": ([1, 1 << 40, -1], "int"),
                      "weights": ([0.5, -1.0, float(record)], "float")})
    writer.close()


def of_record_class():
    """OneFlow's message, of its definition as our .proto has it."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    with tempfile.TemporaryDirectory() as folder:
        compiled = os.path.join(folder, "set")
        subprocess.run(["protoc", "-I", os.path.dirname(HERE), "-o", compiled, "of_record.proto"], check=True)
        with open(compiled, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sluice.oneflow.OFRecord"))


def write_of_record(path):
    message_class = of_record_class()
    with open(path, "wb") as file:
        for record in range(2):
            message = message_class()
            message.feature["encoded"].bytes_list.value.append(PICTURE)
            message.feature["class/label"].int32_list.value.append(-7 + record)
            message.feature["ids"].int64_list.value.extend([1, 1 << 40, -1])
            message.feature["weights"].float_list.value.extend([0.5, -1.0, float(record)])
            message.feature["exact"].double_list.value.append(0.1)
            data = message.SerializeToString()
            file.write(struct.pack("<q", len(data)) + data)


def read_tfrecord(path):
    import crc32c
    from tfrecord.reader import tfrecord_loader
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        length, = struct.unpack_from("<Q", data, at)
        for begin, size in ((at, 8), (at + 12, length)):
            crc = crc32c.crc32c(data[begin:begin + size])
            masked = (((crc >> 15) | (crc << 17)) + 0xa282ead8) & 0xffffffff
            assert struct.unpack_from("<I", data, begin + size)[0] == masked, begin
        at += 16 + length
    for example in tfrecord_loader(path, None):
        print({name: value if len(value) < 100 else "%d bytes" % len(value) for name, value in sorted(example.items())})


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write_tfrecord(os.path.join(HERE, "records", "golden.tfrecord"))
        write_of_record(os.path.join(HERE, "records", "part-00000"))
    else:
        read_tfrecord(sys.argv[2])
