// The code of the Pay button. Copy this file: it needs nothing else.
//
//   const res = await post('/v1/payments', { key: keyOf('order-7'), body });
//   if (isFinal(res)) end('order-7');
//
// The rule: 409 with Retry-After: repeat with the same key; 409 without it: never repeat.

// keyOf returns the key of an intent, of what has to happen once: "pay order 7". The key is made and stored before the first
// attempt. A second click, a repeat and a reload of the page find the same one.
export function keyOf(intent) {
  const name = 'key of ' + intent;
  if (!localStorage.getItem(name)) localStorage.setItem(name, uuidv7());
  return localStorage.getItem(name);
}

// isFinal reports whether an answer ends the intent: it was carried out, or refused for good. After anything else the key has to
// be kept: ask for the operation with it, or repeat with it later. A new key could pay again.
export function isFinal(res) {
  return ['created', 'reused'].includes(res?.headers.get('Idempotency-Result'));
}

// end forgets the key of an intent. Call it after a final answer, never before.
export function end(intent) {
  localStorage.removeItem('key of ' + intent);
}

// post sends a command, and repeats it until there is an answer. All attempts have the same key. It returns null when it gives
// up: then nobody knows what happened, and a later attempt needs the same key.
export async function post(url, { key, body, patience = 10_000, send = fetch }) {
  const headers = { 'Content-Type': 'application/json', ...(key && { 'Idempotency-Key': key }) };
  for (let n = 0; ; n++) {
    const res = await attempt(send, url, { method: 'POST', headers, body, signal: AbortSignal.timeout(patience) });
    const again = !res || res.headers.has('Retry-After') ||
      (res.status >= 500 && !res.headers.has('Idempotency-Result'));
    if (!again || n === 5) return res;
    const wait = Number(res?.headers.get('Retry-After')) * 1000 || 200 * 2 ** n;
    await new Promise((done) => setTimeout(done, wait * (1 + Math.random())));
  }
}

// attempt returns the answer with its whole body, or null: no connection, no answer in time, or half of one.
async function attempt(send, url, request) {
  try {
    const res = await send(url, request);
    return { status: res.status, headers: res.headers, body: await res.text() };
  } catch {
    return null;
  }
}

// uuidv7 is the time in milliseconds (48 bits), and then chance.
export function uuidv7() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const time = Date.now();
  for (let i = 0; i < 6; i++) bytes[i] = time / 2 ** (40 - 8 * i);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
