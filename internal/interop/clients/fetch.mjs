export async function pay(url, key, body) {
  for (let n = 0; ; n++) {
    const res = await fetch(url, {
      method: 'POST', body, headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
    }).then(async (res) => ({ status: res.status, headers: res.headers, body: await res.text() })) // or it is cut
      .catch(() => null);
    const again = !res || res.headers.has('Retry-After') || (res.status >= 500 && !res.headers.has('Idempotency-Result'));
    if (!again || n === 5) return res; // null: uncertain; keep the key
    const wait = Number(res?.headers.get('Retry-After')) * 1000 || 200 * 2 ** n;
    await new Promise((done) => setTimeout(done, wait * (1 + Math.random())));
  }
}
