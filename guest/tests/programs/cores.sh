# Native programs that start parts of themselves on other cores, and are killed.
# cores: 4

nativetest parts
# With the one that says so, and what the system has there.
before=$(nativetest jobs)
nativetest keeper >/tmp/said &
until [ -s /tmp/said ]; do sleep 0.1; done
cat /tmp/said
[ "$(nativetest jobs)" = "$before" ] || echo one more
kill -9 $!
# Its part ends with it, though not at once.
until [ "$(nativetest jobs)" = "$before" ]; do sleep 0.1; done
echo as before
rm /tmp/said
