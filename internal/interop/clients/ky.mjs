import ky from 'ky';

const final = ({ status, headers }) => !headers.has('retry-after') && (status === 409 || headers.has('idempotency-result'));
const client = ky.create({
  timeout: 75_000, // 10 s is the default
  retry: {
    limit: 5, methods: ['post'], statusCodes: [409, 425, 429, 500, 502, 503, 504], afterStatusCodes: [409, 425, 429, 503],
    retryOnTimeout: true, shouldRetry: ({ error }) => (error.response && final(error.response) ? false : undefined),
  },
  // Reads the body inside of the attempt: ky does not repeat once the status is there.
  hooks: { afterResponse: [async (_request, _options, res) => new Response((await res.text()) || null, res)] },
});

export async function pay(url, key, body) {
  const res = await client.post(url, { json: JSON.parse(body), headers: { 'Idempotency-Key': key } });
  return { status: res.status, body: await res.text() };
}
