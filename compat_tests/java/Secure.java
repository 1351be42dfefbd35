import java.util.Base64;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.impl.auth.AuthenticationBasic;

/** Prints NAME=ok or NAME=EXCEPTION for each way to log in. Arguments: plain, TLS and HTTPS URL, folder of files. */
public class Secure {
    static String folder;
    static final AtomicInteger tokensMade = new AtomicInteger();

    public static void main(String[] arguments) throws Exception {
        String plain = arguments[0], tls = arguments[1], https = arguments[2];
        folder = arguments[3];
        attempt("tls_certificate", builder(tls).authentication(certificate("admin")), "dave", 10, 0);
        attempt("tls_token", builder(tls).authentication(token("dave")), "dave", 10, 0);
        attempt("https_lookup", builder(https).authentication(certificate("admin")), "dave", 3, 0);
        attempt("stranger_certificate", builder(tls).authentication(certificate("stranger")), "dave", 1, 0);
        attempt("password", builder(plain).authentication(password("pass:word")), "dave", 3, 0);
        attempt("wrong_password", builder(plain).authentication(password("password")), "dave", 1, 0);
        attempt("may_not_consume", builder(plain).authentication(token("alice")), "alice", 1, 0);
        attempt("may_not_produce", builder(plain).authentication(token("bob")), "bob", 1, 0);
        attempt("renewed", builder(plain).authentication(AuthenticationFactory.token(Secure::shortToken)), "dave", 40, 100);
        System.out.println("tokens_made=" + tokensMade.get());
        System.exit(0);
    }

    static ClientBuilder builder(String url) {
        return PulsarClient.builder().serviceUrl(url).tlsTrustCertsFilePath(folder + "/authority.pem")
                .enableTlsHostnameVerification(true).operationTimeout(5, TimeUnit.SECONDS)
                .lookupTimeout(5, TimeUnit.SECONDS);
    }

    static void attempt(String name, ClientBuilder builder, String subscription, int count, long pauseMs) {
        String topic = "persistent://secured/orders/java-" + name;
        String said = "ok";
        try {
            // The client is not closed, because that would take two seconds and the program ends anyway.
            PulsarClient client = builder.build();
            Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName(subscription).subscribe();
            Producer<byte[]> producer = client.newProducer().topic(topic).create();
            for (int number = 0; number < count; number++) {
                producer.send(("m" + number).getBytes());
                Message<byte[]> message = consumer.receive(5, TimeUnit.SECONDS);
                if (message == null || !new String(message.getData()).equals("m" + number)) {
                    throw new IllegalStateException("another message came, or none");
                }
                consumer.acknowledge(message);
                Thread.sleep(pauseMs);
            }
        } catch (Exception error) {
            said = error.getClass().getSimpleName();
        }
        System.out.println(name + "=" + said);
    }

    static Authentication certificate(String role) {
        return AuthenticationFactory.TLS(folder + "/" + role + ".cert.pem", folder + "/" + role + ".key.pem");
    }

    static Authentication password(String password) {
        AuthenticationBasic basic = new AuthenticationBasic();
        basic.configure(Map.of("userId", "dave", "password", password));
        return basic;
    }

    static Authentication token(String role) {
        return AuthenticationFactory.token(signed(role, 600));
    }

    static String shortToken() {
        tokensMade.incrementAndGet();
        return signed("dave", 1);
    }

    static String signed(String role, long seconds) {
        try {
            byte[] key = Files.readAllBytes(Path.of(folder, "secret.key"));
            long expires = System.currentTimeMillis() / 1000 + seconds;
            String content = part("{\"alg\":\"HS256\"}".getBytes()) + "."
                    + part(("{\"sub\":\"" + role + "\",\"exp\":" + expires + "}").getBytes());
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return content + "." + part(mac.doFinal(content.getBytes()));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static String part(byte[] bytes) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
    }
}
