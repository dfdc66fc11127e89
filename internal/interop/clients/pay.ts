// A command's answer: what the server has recorded, or a refusal that no repeat changes.
export type Answer = { status: number; headers: Headers; body: string };

// newKey is a UUIDv7 in lower case. Make it once for each intent, and store it before you send it.
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  new DataView(bytes.buffer).setBigUint64(0, (BigInt(Date.now()) << 16n) | 0x7000n | BigInt(bytes[6] & 0x0f) << 8n | BigInt(bytes[7]));
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
  return hex.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5');
}

// pay repeats with the same key while that may help. null: uncertain; keep the key, and repeat later.
export async function pay(url: string, key: string, body: string): Promise<Answer | null> {
  for (let n = 0; ; n++) {
    const answer = await send(url, key, body);
    const again = !answer || answer.headers.has('Retry-After') ||
      (answer.status >= 500 && !answer.headers.has('Idempotency-Result'));
    if (!again || n === 5) return answer;
    const wait = Number(answer?.headers.get('Retry-After')) * 1000 || 200 * 2 ** n;
    await new Promise((done) => setTimeout(done, wait * (1 + Math.random())));
  }
}

async function send(url: string, key: string, body: string): Promise<Answer | null> {
  try {
    const res = await fetch(url, {
      method: 'POST', body, headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
      signal: AbortSignal.timeout(75_000),
    });
    return { status: res.status, headers: res.headers, body: await res.text() }; // the body may be cut
  } catch {
    return null;
  }
}

// meaning says what to do with an answer of pay.
export function meaning(answer: Answer | null): 'answered' | 'ask' | 'correct' | 'later' {
  const result = answer?.headers.get('Idempotency-Result');
  if (result === 'created' || result === 'reused') return 'answered'; // whatever its status
  switch (answer?.headers.get('Idempotency-Problem')) {
    case 'outcome_unknown': case 'key_expired': case 'response_not_replayable': case 'key_too_old':
      return 'ask'; // the money may have moved: never a new key
    case 'in_flight': case 'too_many_open': case 'store_unavailable': case 'rolled_back': case 'commit_unconfirmed':
    case 'call_unfinished': case 'body_unreadable':
      return 'later'; // repeat with the same key
    case null: case undefined:
      if (result === 'unknown') return 'ask';
      return result === 'not_applied' ? 'correct' : 'later'; // without any mark a proxy has answered: keep the key
    default: // key_reused, key_missing, suspected_duplicate, forbidden, and the like
      return result === 'unknown' ? 'ask' : 'correct';
  }
}
