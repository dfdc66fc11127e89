// The page around the Pay button: switches, ledgers and lines. The button's own code is in pay.js.

import { end, isFinal, keyOf, post } from './pay.js';

const $ = (selector) => document.querySelector(selector);

const price = '49.00';
const patience = 2000; // of the page for an answer, in milliseconds

// The two counters. They differ in the key and in nothing else.
const counters = [
  { id: 'without', pay: '/demo/payments', list: '/demo/payments', key: () => undefined, payments: [] },
  { id: 'with', pay: '/v1/payments', list: '/v1/payments', key: keyOf, payments: [] },
];

// ask is fetch with a fault. The server gives each request that has this header a connection of its own.
function ask(url, request = {}, fault = 'none') {
  return fetch(url, { ...request, headers: { ...request.headers, 'Demo-Fault': fault } });
}

// The visitor is a customer of the shop, made up for this page. It survives a reload, and all tabs share it.
let asked;
async function visitor() {
  if (!localStorage.getItem('visitor')) {
    asked ??= ask('/demo/visitor').then((res) => res.text());
    localStorage.setItem('visitor', await asked.finally(() => { asked = undefined; }));
  }
  const made = JSON.parse(localStorage.getItem('visitor'));
  for (const input of document.querySelectorAll('#switches .server')) input.disabled = !made.faults.includes(input.value);
  return made.token;
}

let running = 0; // presses that have no answer yet

const isOn = (name) => $(`#switches input[value=${name}]`).checked;

// One press of the button. An order that has no answer yet is the same order at the next press: the same intent.
async function press() {
  const number = Number(localStorage.getItem('open')) || Number(localStorage.getItem('orders') ?? 0) + 1;
  localStorage.setItem('orders', number);
  localStorage.setItem('open', number);
  const order = `order-${number}`;
  const senders = (isOn('devices') ? ['Phone', 'Laptop'] : ['']).flatMap((device) =>
    (isOn('double') ? ['1st click', '2nd click'] : ['']).map((click) => [device, click].filter(Boolean).join(', ')));
  const faults = ['lost', 'slow', 'dies'].filter(isOn);
  say(`Paying order ${number} …`);
  $('#reset').disabled = ++running > 0;
  try {
    const answers = [];
    for (const counter of counters) {
      const paying = senders.map((sender) => pay(counter, order, sender, faults));
      // Its death would break the other counter's requests, too: they take turns.
      if (faults.includes('dies')) await Promise.all(paying);
      answers.push(paying);
    }
    await Promise.all(answers[0]);
    const isPaid = (await Promise.all(answers[1])).some(isFinal);
    if (isPaid) {
      end(order);
      if (localStorage.getItem('open') === String(number)) localStorage.removeItem('open');
    }
    await refresh();
    const [without, times] = counters.map(({ payments }) => payments.filter(({ order_id: id }) => id === order).length);
    say(isPaid ? `Order ${number}: paid ${inTimes(without)} without a key, ${inTimes(times)} with a key.`
      : `No answer about order ${number}. Its key is kept: press Pay again.`);
  } finally {
    $('#reset').disabled = --running > 0;
  }
}

// pay sends one payment at one counter. Attempt n has fault n, so that the faults come to an end.
async function pay(counter, order, sender, faults) {
  const token = await visitor();
  let n = 0;
  const send = async (url, request) => {
    const fault = faults[n++];
    const line = newLine(counter, order, sender, n, request.headers['Idempotency-Key']);
    const headers = { ...request.headers, Authorization: `Bearer ${token}` };
    try {
      const res = await ask(url, { ...request, headers }, fault);
      finish(line, res);
      return res;
    } catch (err) {
      finish(line, null, err);
      throw err;
    } finally {
      refresh();
    }
  };
  const body = JSON.stringify({ order_id: order, amount: price, currency: 'EUR', method: 'pm_ok' });
  return post(counter.pay, { key: counter.key(order), body, patience, send });
}

// newLine adds the line of a request that has just been sent.
function newLine(counter, order, sender, n, key) {
  const line = element('li', 'sent');
  line.append(
    element('b', 'status', '…'), ' ', element('span', 'words', 'Sent.'),
    element('span', 'about', [`Order ${order.slice(6)}`, sender, n > 1 && `attempt ${n}`].filter(Boolean).join(' · ')),
    element('code', 'headers', key ? `Idempotency-Key: ${key}` : `POST ${counter.pay}, no key`));
  $(`#${counter.id} ol`).prepend(line);
  line.repeat = n > 1;
  return line;
}

// finish says in words what came back. Only the headers of the answer decide.
function finish(line, res, err) {
  const [kind, status, words] = inWords(line, res, err);
  line.className = kind;
  line.querySelector('.status').textContent = status;
  line.querySelector('.words').textContent = words;
  const headers = ['Idempotency-Result', 'Idempotent-Replayed', 'Retry-After'].filter((name) => res?.headers.has(name));
  line.querySelector('.headers').append(...headers.map((name) => `\n${name}: ${res.headers.get(name)}`));
}

function inWords(line, res, err) {
  if (err?.name === 'TimeoutError') return ['none', 'No answer in time', 'Booked or not? The page repeats.'];
  if (!res) return ['none', 'No answer', 'Booked or not? The page repeats.'];
  if (res.headers.get('Idempotency-Result') === 'reused') return ['good', res.status, 'The same answer again.'];
  if (res.headers.get('Idempotency-Result') === 'created') return ['good', res.status, 'Booked, and the answer is recorded.'];
  if (res.status === 201) return line.repeat ? ['bad', 201, 'Booked as a new payment.'] : ['plain', 201, 'Booked.'];
  if (res.headers.has('Retry-After')) return ['plain', res.status, `Not yet: repeat in ${res.headers.get('Retry-After')} s.`];
  if (res.status === 409) return ['bad', 409, 'Refused. Never repeat.'];
  return ['bad', res.status, res.statusText];
}

// refresh asks the server for both ledgers. What the page shows as booked is what is in the database.
let latest = 0;
async function refresh() {
  const mine = ++latest;
  await Promise.all(counters.map(async (counter) => {
    const token = await visitor();
    const res = await ask(counter.list, { headers: { Authorization: `Bearer ${token}` } }).catch(() => null);
    if (res?.status === 401) localStorage.removeItem('visitor'); // of another day, or of another server
    const payments = res?.ok && await res.json();
    // An answer that has been overtaken by that of a later question is old.
    if (payments && mine > (counter.shown ?? 0) && token === await visitor()) {
      Object.assign(counter, { shown: mine, payments });
      show(counter, payments);
    }
  })).catch(() => {}); // the server is away: soon again
}

function show(counter, payments) {
  const seen = new Set();
  const rows = payments.map(({ order_id: order, amount }) => {
    const again = seen.has(order);
    seen.add(order);
    const row = element('tr', again ? 'again' : '');
    row.append(element('td', '', `Order ${order.slice(6)}`), element('td', '', `€${amount}`), element('td', '', again ? 'paid again' : ''));
    return row;
  });
  const section = $(`#${counter.id}`);
  const verdict = section.querySelector('.verdict');
  const text = inSum(payments.length, seen.size);
  if (verdict.textContent === text.join('')) return; // nothing new: nothing to announce
  section.classList.toggle('wrong', payments.length > seen.size);
  section.classList.toggle('right', payments.length > 0 && payments.length === seen.size);
  verdict.replaceChildren(element('strong', '', text[0]), element('span', '', text[1]));
  section.querySelector('tbody').replaceChildren(...rows.reverse());
}

function inTimes(n) { return n === 1 ? 'once' : `${n} times`; }

function inSum(payments, orders) {
  const count = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;
  if (payments === 0) return ['€0.00', ' Nothing is paid yet.'];
  const more = payments - orders;
  return [`€${(payments * price).toFixed(2)}`, ` ${count(payments, 'payment')} for ${count(orders, 'order')}. ` +
    (more ? `€${(more * price).toFixed(2)} too much.` : 'Each order once.')];
}

function say(text) { $('#now').textContent = text; }

function element(name, kind, text = '') {
  const made = document.createElement(name);
  made.className = kind;
  made.textContent = text;
  return made;
}

$('#pay').addEventListener('click', press);
$('#reset').addEventListener('click', async () => {
  localStorage.clear(); // a new visitor has paid nothing
  for (const list of document.querySelectorAll('.requests ol')) list.replaceChildren();
  say('Press Pay, and look at both ledgers.');
  await refresh();
});
$('#code').addEventListener('toggle', async () => {
  $('#code pre').textContent = await (await fetch('/demo/files/pay.js')).text();
}, { once: true });
setInterval(() => { if (!document.hidden) refresh(); }, 1000); // another tab, another device
refresh();
