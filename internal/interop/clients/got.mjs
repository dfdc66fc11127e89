import got from 'got';

const final = ({ statusCode, headers }) => !headers['retry-after'] && (statusCode === 409 || headers['idempotency-result']);
const retry = {
  limit: 5, methods: ['POST'], statusCodes: [409, 425, 429, 500, 502, 503, 504],
  calculateDelay: ({ error, computedValue }) => (error.name === 'HTTPError' && final(error.response) ? 0 : computedValue),
};

export async function pay(url, key, body) {
  const res = await got.post(url, { retry, json: JSON.parse(body), headers: { 'Idempotency-Key': key } });
  return { status: res.statusCode, body: res.body };
}
