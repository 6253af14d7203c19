# node 18: promises, workers, files, child processes, streams, a server on a local socket
# deb: nodejs,dash,coreutils,grep,sed,findutils,diffutils,mawk
# mem: 2G
set -e
cd /tmp; cat > m.js <<'J'
const fs = require('fs'), cp = require('child_process'), crypto = require('crypto'), net = require('net'), zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (!isMainThread) { let s = 0; for (let i = 0; i < 200000; i++) s += (i * workerData) % 7; parentPort.postMessage(s); return; }
(async () => {
  fs.writeFileSync('a', 'x'.repeat(100000)); console.log(crypto.createHash('sha256').update(fs.readFileSync('a')).digest('hex'));
  console.log(zlib.gunzipSync(zlib.gzipSync(fs.readFileSync('a'))).length);
  const sums = await Promise.all([1, 2, 3, 4].map(n => new Promise(r => new Worker('/tmp/m.js', { workerData: n }).on('message', r)))); console.log(sums.join());
  console.log(cp.execFileSync('sh', ['-c', 'cat; echo $((6 * 7))'], { input: 'in ' }).toString().trim());
  const server = net.createServer(c => c.pipe(c)).listen('/tmp/sock'); await new Promise(r => server.on('listening', r));
  const c = net.connect('/tmp/sock'); let got = 0; const total = 300000;
  await new Promise(r => { c.on('data', d => { got += d.length; if (got === total) r(); }); c.write(Buffer.alloc(total, 1)); }); console.log('echoed', got); c.end(); server.close();
  const w = fs.watchFile ? 'can watch' : ''; console.log(w); setTimeout(() => console.log('timer'), 20); setImmediate(() => console.log('immediate'));
  process.nextTick(() => console.log('tick')); process.on('exit', code => console.log('exit', code));
  try { null.f } catch (e) { console.log(e.constructor.name) }
})();
J
node m.js
