import Stripe from 'stripe';

export async function pay(url, key, body) {
  const { hostname: host, port } = new URL(url);
  const stripe = new Stripe('sk_test_interop', { protocol: 'http', host, port, maxNetworkRetries: 3 });
  const charge = await stripe.charges.create(JSON.parse(body), { idempotencyKey: key });
  return { status: charge.lastResponse.statusCode, body: charge };
}
