// The Java driver with users who may read: what they can do, as one JSON document.
// Run with: database, certificate authority (PEM), client certificate and key (PKCS #12), connection strings.
import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoException;
import com.mongodb.client.ChangeStreamIterable;
import com.mongodb.client.MongoChangeStreamCursor;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.changestream.ChangeStreamDocument;
import java.io.FileInputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.bson.Document;

public class JavaAccess {
  private static final char[] PASSWORD = "of the store".toCharArray();

  static SSLContext context(String authority, String own) throws Exception {
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    try (FileInputStream file = new FileInputStream(authority)) {
      trusted.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
    }
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (FileInputStream file = new FileInputStream(own)) {
      keys.load(file, PASSWORD);
    }
    KeyManagerFactory key = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    key.init(keys, PASSWORD);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(key.getKeyManagers(), trust.getTrustManagers(), null);
    return context;
  }

  static Integer codeOf(Runnable work) {
    try {
      work.run();
      return null;
    } catch (MongoException error) {
      return error.getCode();
    }
  }

  static void watch(ChangeStreamIterable<Document> opened) {
    try (MongoChangeStreamCursor<ChangeStreamDocument<Document>> stream =
        opened.maxAwaitTime(50, TimeUnit.MILLISECONDS).cursor()) {
      stream.tryNext();
    }
  }

  public static void main(String[] given) throws Exception {
    SSLContext context = context(given[1], given[2]);
    List<Document> seen = new ArrayList<>();
    for (int place = 3; place < given.length; place++) {
      seen.add(access(given[place], given[0], context));
    }
    System.out.println(new Document("seen", seen).toJson());
  }

  static Document access(String uri, String database, SSLContext context) {
    MongoClientSettings settings =
        MongoClientSettings.builder()
            .applyConnectionString(new ConnectionString(uri))
            .applyToSslSettings(ssl -> ssl.enabled(true).context(context))
            .build();
    try (MongoClient client = MongoClients.create(settings)) {
      MongoCollection<Document> orders = client.getDatabase(database).getCollection("orders");
      long found = orders.countDocuments();
      Document status = client.getDatabase("admin").runCommand(new Document("connectionStatus", 1));
      List<Document> users = status.get("authInfo", Document.class).getList("authenticatedUsers", Document.class);
      return new Document("user", users.get(0).getString("user"))
          .append("found", (int) found)
          .append("insert", codeOf(() -> orders.insertOne(new Document())))
          .append("watch", codeOf(() -> watch(client.watch())))
          .append("stream", codeOf(() -> watch(orders.watch())));
    }
  }
}
