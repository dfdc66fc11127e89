import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.concurrent.TimeUnit;
import okhttp3.Interceptor;
import okhttp3.MediaType;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import okhttp3.ResponseBody;

/** Run as: java OkHttp URL KEY BODY. It prints what the program gets, as JSON. */
public class OkHttp {
  public static void main(String[] args) throws IOException {
    OkHttpClient client = new OkHttpClient.Builder().addInterceptor(new Repeat()).readTimeout(75, TimeUnit.SECONDS).build();
    Request request = new Request.Builder().url(args[0]).header("Idempotency-Key", args[1])
        .post(RequestBody.create(MediaType.get("application/json"), args[2])).build();
    try (Response res = client.newCall(request).execute()) {
      String body = res.body().string();
      System.out.println("{\"status\":" + res.code() + ",\"body\":" + (body.isEmpty() ? "null" : body) + "}");
    }
    System.exit(0); // not when the idle threads have ended
  }
}

class Repeat implements Interceptor {
  @Override public Response intercept(Chain chain) throws IOException {
    for (int n = 0; ; n++) {
      boolean last = n == 5 || chain.request().header("Idempotency-Key") == null;
      String after = null;
      try {
        Response res = whole(chain.proceed(chain.request()));
        after = res.header("Retry-After");
        boolean again = after != null || res.code() >= 500 && res.header("Idempotency-Result") == null;
        if (!again || last) return res;
      } catch (IOException e) {
        if (last || chain.call().isCanceled()) throw e; // uncertain: keep the key
      }
      long wait = after != null && after.matches("\\d+") ? Long.parseLong(after) * 1000 : 200L << n;
      try {
        Thread.sleep((long) (wait * (1 + Math.random())));
      } catch (InterruptedException e) {
        throw new InterruptedIOException();
      }
    }
  }

  /** Reads the body inside of the attempt: it can be cut as well. */
  private static Response whole(Response res) throws IOException {
    ResponseBody body = res.body();
    return res.newBuilder().body(ResponseBody.create(body.contentType(), body.bytes())).build();
  }
}
