/** A session of the Java client: what it produces, consumes and administers. Arguments: bootstrap, file for results. */
public final class Session {
    public static void main(String[] arguments) throws Exception {
        Check.tellTo(arguments[1]);
        Clients clients = new Clients(arguments[0]);
        new Records(clients).run();
        new Consumers(clients).run();
        new Groups(clients).run();
        new Topics(clients).run();
        new Cluster(clients).run();
        System.exit(0);
    }
}
