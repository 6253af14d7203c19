# Native programs that start parts of themselves on other cores, and are killed.
# cores: 4

nativetest parts
nativetest keeper >/tmp/said &
until [ -s /tmp/said ]; do sleep 0.1; done
cat /tmp/said
nativetest jobs
kill -9 $!
# Its part ends with it, though not at once.
until [ "$(nativetest jobs)" = 'Ok(1)' ]; do sleep 0.1; done
nativetest jobs
rm /tmp/said
