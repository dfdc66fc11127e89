import axios from 'axios';
import axiosRetry from 'axios-retry';

const client = axios.create();

axiosRetry(client, {
  retries: 5,
  retryDelay: axiosRetry.exponentialDelay, // respects Retry-After
  retryCondition: ({ code, response }) => !response || response.headers['retry-after'] !== undefined ||
    // 5xx, or an answer that was cut in its body
    (code === 'ERR_BAD_RESPONSE' && (response.status < 500 || !response.headers['idempotency-result'])),
});

export async function pay(url, key, body) {
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
  const res = await client.post(url, body, { headers });
  return { status: res.status, body: res.data };
}
