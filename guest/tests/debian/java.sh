# OpenJDK 17: javac, threads that share memory, collections in parallel, a garbage collector under load, exceptions, files, child processes, a server on a socket
# deb: openjdk-17-jdk-headless,bash,dash,coreutils,grep,sed,findutils,diffutils,mawk
# mem: 2G
# runs: when its suite is asked for
set -e
cd /tmp; cat > Main.java <<'J'
import java.nio.file.*; import java.nio.*; import java.nio.channels.*; import java.net.*; import java.util.*; import java.util.concurrent.*; import java.util.concurrent.atomic.*; import java.util.stream.*;
public class Main {
    record Point(int x, int y) {}
    sealed interface Shape permits Circle, Square {}
    record Circle(double r) implements Shape {}
    record Square(double side) implements Shape {}
    static double area(Shape s) { return s instanceof Circle c ? Math.PI * c.r() * c.r() : s instanceof Square q ? q.side() * q.side() : 0; }
    static long depth(long n) { return 1 + depth(n + 1); }
    static int counter; static synchronized void up() { counter++; }
    public static void main(String[] args) throws Exception {
        System.out.printf("%.3f %s%n", area(new Circle(2)) + area(new Square(3)), new Point(1, 2));
        Thread[] all = new Thread[8]; AtomicLong sum = new AtomicLong();
        for (int t = 0; t < all.length; t++) { int id = t; all[t] = new Thread(() -> { for (int i = 0; i < 5000; i++) { up(); sum.addAndGet(i % (id + 1)); } }); all[t].start(); }
        for (Thread t : all) t.join();
        System.out.println(counter + " " + sum);
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Integer>> found = new ArrayList<>();
        for (int i = 0; i < 8; i++) { int from = i * 2000; found.add(pool.submit(() -> (int) IntStream.range(from, from + 2000).filter(n -> n > 1 && IntStream.rangeClosed(2, (int) Math.sqrt(n)).allMatch(d -> n % d != 0)).count())); }
        int primes = 0; for (var f : found) primes += f.get(); pool.shutdown(); System.out.println(primes + " " + pool.awaitTermination(5, TimeUnit.SECONDS));
        System.out.println(IntStream.range(0, 200000).parallel().mapToLong(i -> (long) i * i % 97).sum());
        Map<Integer, byte[]> kept = new ConcurrentHashMap<>(); long made = 0;
        for (int i = 0; i < 20000; i++) { byte[] some = new byte[4096]; some[i % 4096] = 1; made += some.length; kept.put(i % 500, some); }
        System.gc(); System.out.println(made + " " + kept.values().stream().mapToInt(b -> { int s = 0; for (byte x : b) s += x; return s; }).sum());
        try { depth(0); } catch (StackOverflowError e) { System.out.println("stack overflow"); }
        try { Object o = null; o.hashCode(); } catch (NullPointerException e) { System.out.println("null"); }
        try { System.out.println(1 / (args.length)); } catch (ArithmeticException e) { System.out.println(e.getMessage()); }
        try { byte[][] much = new byte[2000][]; for (int i = 0; i < 2000; i++) much[i] = new byte[1 << 20]; } catch (OutOfMemoryError e) { System.out.println("out of memory"); }
        Path file = Files.createTempFile("x", ".txt"); Files.write(file, List.of("b", "a", "c"));
        try (FileChannel c = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) { MappedByteBuffer m = c.map(FileChannel.MapMode.READ_WRITE, 0, 6); m.put(0, (byte) 'B'); m.force(); }
        System.out.println(Files.readAllLines(file) + " " + Files.size(file)); Files.delete(file);
        Process p = new ProcessBuilder("sh", "-c", "read line; echo got $line; exit 3").start();
        p.getOutputStream().write("words\n".getBytes()); p.getOutputStream().close();
        System.out.println(new String(p.getInputStream().readAllBytes()).trim() + " " + p.waitFor());
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX); server.bind(UnixDomainSocketAddress.of("/tmp/java.sock"));
        Thread echo = new Thread(() -> { try (SocketChannel c = server.accept()) { ByteBuffer b = ByteBuffer.allocate(100); c.read(b); b.flip(); c.write(b); } catch (Exception e) { e.printStackTrace(); } }); echo.start();
        try (SocketChannel c = SocketChannel.open(UnixDomainSocketAddress.of("/tmp/java.sock"))) { c.write(ByteBuffer.wrap("echo".getBytes())); ByteBuffer b = ByteBuffer.allocate(100); c.read(b); System.out.println(new String(b.array(), 0, b.position())); } echo.join();
        CompletableFuture<String> chain = CompletableFuture.supplyAsync(() -> 20).thenApplyAsync(x -> x * 2 + 2).thenCombine(CompletableFuture.supplyAsync(() -> "!"), (x, y) -> x + y);
        System.out.println(chain.get()); Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook"))); System.exit(4);
    }
}
J
javac Main.java
java -Xmx128m -XX:+UseParallelGC -XX:TieredStopAtLevel=1 Main || echo "status $?"
