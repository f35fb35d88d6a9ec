#!/bin/busybox sh
# /init of the virtual machine of rdma_vm.py. Two RDMA devices, rxe0 and rxe1, on the two ends of a virtual cable: packets
# between 10.77.0.1 and 10.77.0.2 cross it, though both are of this machine, so that it can be cut and made to lose some.
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox mkdir -p /dev/pts /dev/shm /tmp /run /payload
for folder in /dev/shm /tmp /run; do /bin/busybox mount -t tmpfs none "$folder"; done
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin HOME=/root
ip() { /usr/bin/ip "$@"; } # not busybox's
for module in $(cat /modules/order); do insmod "/modules/$module.ko" || echo "no module $module"; done
ulimit -l unlimited
ip link set lo up
ip link add h0 type veth peer name h1
for end in 0 1; do
  ip link set "h$end" mtu 4200
  echo 1 >"/proc/sys/net/ipv4/conf/h$end/accept_local"
  echo 0 >"/proc/sys/net/ipv4/conf/h$end/rp_filter"
  ip addr add "10.77.0.$((end + 1))/24" dev "h$end"
  ip link set "h$end" up
done
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
# Addresses of this machine are looked up after these rules, and not first.
ip rule add pref 100 lookup local
ip rule del pref 0 lookup local
ip rule add pref 10 iif lo from 10.77.0.1 to 10.77.0.2 lookup 101
ip rule add pref 11 iif lo from 10.77.0.2 to 10.77.0.1 lookup 102
ip route add 10.77.0.2/32 dev h0 src 10.77.0.1 table 101
ip route add 10.77.0.1/32 dev h1 src 10.77.0.2 table 102
ip neigh add 10.77.0.2 lladdr "$(cat /sys/class/net/h1/address)" dev h0 nud permanent
ip neigh add 10.77.0.1 lladdr "$(cat /sys/class/net/h0/address)" dev h1 nud permanent
for end in 0 1; do rdma link add "rxe$end" type rxe netdev "h$end" || echo "no device rxe$end"; done

# The state of the machine is saved here. Whoever goes on from it says what time it is and what to run; a read ends at once
# while nobody is at the other end.
output=$(ls /dev/vport*p1)
control=$(ls /dev/vport*p2)
echo "<3>RDMA_VM_READY" >/dev/kmsg
until read -r now seed command <"$control"; do usleep 20000; done
date -s "@$now" >/dev/null
echo "$seed" >/dev/urandom
mount -t ext4 -o ro /dev/vda /payload
echo "$command" | base64 -d >/tmp/command
mkdir /tmp/work
cd /tmp/work || exit 1
export LD_LIBRARY_PATH=/payload/lib
(exec </dev/null >"$output" 2>&1; sh /tmp/command)
echo "$?" >"$control"
poweroff -f
