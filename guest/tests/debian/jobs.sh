# Who logs in for whom: jobs of cron and at, sudo and su, as whom somebody has logged in; names of hosts beside systemd's files; a scan of ports
# deb: cron,at,sudo,passwd,systemd,nmap,socat,login,libpam-runtime,util-linux,dash,bash,coreutils,grep,sed,findutils
# mem: 1G
set -e
cd /tmp; export LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
until_there() { for i in $(seq 100); do [ -s $1 ] && break; sleep 0.1; done; cat $1; }
useradd -m -s /bin/sh ann; mkdir -p jobs; chmod 1777 jobs
# What a job is run as, and who has logged in for it: what PAM's stack for sessions without a terminal lets through.
echo 'id -un; cat /proc/self/loginuid; echo; logname; [ $(cat /proc/self/sessionid) != 4294967295 ] && echo a session' > /tmp/job; chmod 755 /tmp/job
echo '@reboot sh /tmp/job > /tmp/jobs/root 2>&1' | crontab -
echo '@reboot sh /tmp/job > /tmp/jobs/new 2>&1; mv /tmp/jobs/new /tmp/jobs/ann' | crontab -u ann -
crontab -l; rm -f /run/crond.reboot; cron
until_there jobs/ann; grep root jobs/root
mkdir -p /var/spool/cron/atjobs /var/spool/cron/atspool; touch /var/spool/cron/atjobs/.SEQ
chown -R daemon:daemon /var/spool/cron/atjobs /var/spool/cron/atspool; chmod 1770 /var/spool/cron/atjobs /var/spool/cron/atspool
atd; echo 'sh /tmp/job > /tmp/jobs/new 2>&1; mv /tmp/jobs/new /tmp/jobs/at' | at now 2> /dev/null
until_there jobs/at; atq
# Whoever one becomes, it is still the same who has logged in.
echo 1234 > /proc/self/loginuid
sudo -n -u ann sh -c 'id -un; cat /proc/self/loginuid; echo'; su ann -c 'id -un; cat /proc/self/loginuid; echo'
cat /etc/hosts /root/.ssh/authorized_keys 2> /dev/null | grep -c -e network.hosts -e ssh.authorized || true
socat TCP-LISTEN:5000,fork,reuseaddr EXEC:cat & s=$!; sleep 1
nmap -n -sT -p 4999-5001 127.0.0.1 | grep '^[0-9]*.tcp'; kill $s
kill $(cat /run/crond.pid) $(cat /run/atd.pid); echo over
