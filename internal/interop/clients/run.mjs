// Runs one of the clients: node run.mjs ./fetch.mjs URL KEY BODY. It prints what the program gets, as JSON.
const [file, ...args] = process.argv.slice(2);
const { pay } = await import(file);
const got = await pay(...args).catch((e) => ({
  error: String(e), status: e.response?.status ?? e.response?.statusCode ?? e.statusCode,
}));
console.log(JSON.stringify(got));
process.exit(); // not when the last time-out has passed: stripe-node's is 80 s
