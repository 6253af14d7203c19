# Programs that filter system calls: their own (man, sshd), those of others (strace --seccomp-bpf), and libseccomp's
# deb: strace,man-db,python3-seccomp,openssh-server,openssh-client,procps,dash,bash,coreutils,grep,sed
# mem: 1G
# runs: when its suite is asked for
cd /tmp
echo "-- strace"; strace --seccomp-bpf -f -e trace=openat,execve -o out sh -c 'cat /etc/passwd > /dev/null; ls / > /dev/null'; grep -c execve out; grep -c 'openat(' out | sed 's/[0-9][0-9]*/some/'; strace --seccomp-bpf -f -c -e trace=openat -o counts sh -c 'ls / > /dev/null'; grep -c openat counts
echo "-- man"; man -P cat true | head -n 4
echo "-- libseccomp"
python3 - <<'P'
import seccomp, os, errno, threading, subprocess, signal
f = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
f.add_rule(seccomp.ERRNO(errno.EPERM), "mkdir")
f.add_rule(seccomp.ERRNO(errno.EXDEV), "openat", seccomp.Arg(2, seccomp.MASKED_EQ, os.O_CREAT, os.O_CREAT))
f.add_rule(seccomp.TRAP, "chroot")
f.add_rule(seccomp.KILL_PROCESS, "sync")
f.set_attr(seccomp.Attr.CTL_TSYNC, 1)
f.load()
def attempt(what):
    try: return what()
    except OSError as e: return errno.errorcode[e.errno]
print(attempt(lambda: os.mkdir("x")), attempt(lambda: open("y", "w")), attempt(lambda: open("/etc/passwd").read(4)))
said = []
thread = threading.Thread(target=lambda: said.append(attempt(lambda: os.mkdir("x")))); thread.start(); thread.join(); print(said)
print(subprocess.run(["sh", "-c", "mkdir z; echo $?"], capture_output=True, text=True).stdout.split())
for what in (lambda: os.chroot("/"), os.sync):
    pid = os.fork()
    if pid == 0:
        what(); os._exit(0)
    print(signal.Signals(os.WTERMSIG(os.waitpid(pid, 0)[1])).name)
P
grep -c . /proc/self/status | sed 's/[0-9][0-9]*/some/'
echo "-- sshd"; ssh-keygen -q -t ed25519 -N '' -f key; mkdir -p /root/.ssh /run/sshd; cp key.pub /root/.ssh/authorized_keys; chmod 700 /root/.ssh; chmod 600 /root/.ssh/authorized_keys
ssh-keygen -q -t ed25519 -N '' -f host
/usr/sbin/sshd -f /dev/null -p 2222 -h /tmp/host -E sshd.log -o UsePAM=no -o StrictModes=no -o PermitRootLogin=yes
for try in $(seq 50); do ssh -q -o ConnectTimeout=20 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i key -p 2222 root@127.0.0.1 'echo over ssh; id -u; grep Seccomp: /proc/self/status' && break; sleep 1; done
# Who has not logged in yet is kept in a filter.
python3 - <<'P'
import socket, time, glob
s = socket.create_connection(("127.0.0.1", 2222)); print(s.recv(8))
s.sendall(b"SSH-2.0-waits\r\n")
def filtered():
    for path in glob.glob("/proc/[0-9]*/status"):
        try: text = open(path).read()
        except OSError: continue
        if "Name:\tsshd" in text and "Seccomp:\t2" in text: return True
for n in range(100):
    if filtered(): break
    time.sleep(0.2)
print("filtered", filtered())
P
pkill sshd; echo done
