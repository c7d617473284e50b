// SHA-256 and SHA-512 (FIPS 180-4), BLAKE3 for hashing only (c2sp.org/BLAKE3).
//
// WebCrypto has no BLAKE3, has nothing on plain HTTP, and answers later. One
// implementation that runs everywhere gives one verdict everywhere.

// The constants are the fractions of roots of the first primes, so they are computed:
// nobody has to compare 144 numbers with the standard.
function primes(n) {
  const found = [];
  for (let i = 2n; found.length < n; i++) if (found.every((p) => i % p)) found.push(i);
  return found;
}

// rootFraction gives the first 64 bits of the fraction of the square or cube root of n.
function rootFraction(n, degree) {
  const power = BigInt(degree);
  const scaled = n << (64n * power);
  let low = 0n, high = 1n << 70n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** power <= scaled) low = middle;
    else high = middle;
  }
  return low & 0xffffffffffffffffn;
}

const K512 = primes(80).map((p) => rootFraction(p, 3));
const H512 = primes(8).map((p) => rootFraction(p, 2));
const K256 = Uint32Array.from(K512.slice(0, 64), (k) => Number(k >> 32n));
const H256 = Uint32Array.from(H512, (h) => Number(h >> 32n));

// padded ends the message as both hashes do: a bit, zeros, the length in bits.
function padded(bytes, block, lengthBytes) {
  const size = Math.ceil((bytes.length + 1 + lengthBytes) / block) * block;
  const out = new Uint8Array(size);
  out.set(bytes);
  out[bytes.length] = 0x80;
  new DataView(out.buffer).setBigUint64(size - 8, BigInt(bytes.length) * 8n);
  return new DataView(out.buffer);
}

export function sha256(bytes) {
  const data = padded(bytes, 64, 8);
  const h = H256.slice();
  const w = new Uint32Array(64);
  for (let at = 0; at < data.byteLength; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = data.getUint32(at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
    }
    let [a, b, c, d, e, f, g, k] = h;
    for (let i = 0; i < 64; i++) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (k + s1 + ((e & f) ^ (~e & g)) + K256[i] + w[i]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      k = g; g = f; f = e; e = (d + t1) | 0; d = c; c = b; b = a; a = (t1 + t2) | 0;
    }
    [a, b, c, d, e, f, g, k].forEach((x, i) => { h[i] += x; });
  }
  const out = new DataView(new ArrayBuffer(32));
  h.forEach((x, i) => out.setUint32(4 * i, x));
  return new Uint8Array(out.buffer);
}

export function sha512(bytes) {
  const mask = 0xffffffffffffffffn;
  const turn = (x, n) => ((x >> n) | (x << (64n - n))) & mask;
  const data = padded(bytes, 128, 16);
  const h = H512.slice();
  for (let at = 0; at < data.byteLength; at += 128) {
    const w = Array.from({ length: 16 }, (_, i) => data.getBigUint64(at + 8 * i));
    for (let i = 16; i < 80; i++) {
      const x = w[i - 15], y = w[i - 2];
      const s0 = turn(x, 1n) ^ turn(x, 8n) ^ (x >> 7n);
      const s1 = turn(y, 19n) ^ turn(y, 61n) ^ (y >> 6n);
      w[i] = (w[i - 16] + s0 + w[i - 7] + s1) & mask;
    }
    let [a, b, c, d, e, f, g, k] = h;
    for (let i = 0; i < 80; i++) {
      const s1 = turn(e, 14n) ^ turn(e, 18n) ^ turn(e, 41n);
      const t1 = k + s1 + ((e & f) ^ (~e & mask & g)) + K512[i] + w[i];
      const s0 = turn(a, 28n) ^ turn(a, 34n) ^ turn(a, 39n);
      const t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      k = g; g = f; f = e; e = (d + t1) & mask; d = c; c = b; b = a; a = (t1 + t2) & mask;
    }
    [a, b, c, d, e, f, g, k].forEach((x, i) => { h[i] = (h[i] + x) & mask; });
  }
  const out = new DataView(new ArrayBuffer(64));
  h.forEach((x, i) => out.setBigUint64(8 * i, x));
  return new Uint8Array(out.buffer);
}

// BLAKE3's first words are those of SHA-256.
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const LANES = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
const CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8;

function compress(h, words, counter, length, flags) {
  const v = new Uint32Array(16);
  v.set(h);
  v.set(H256.subarray(0, 4), 8);
  v[12] = counter % 4294967296;
  v[13] = Math.floor(counter / 4294967296);
  v[14] = length;
  v[15] = flags;
  let m = words;
  for (let round = 0; round < 7; round++) {
    for (let lane = 0; lane < 8; lane++) {
      const [a, b, c, d] = LANES[lane];
      v[a] += v[b] + m[2 * lane];
      let x = v[d] ^ v[a]; v[d] = (x >>> 16) | (x << 16);
      v[c] += v[d];
      x = v[b] ^ v[c]; v[b] = (x >>> 12) | (x << 20);
      v[a] += v[b] + m[2 * lane + 1];
      x = v[d] ^ v[a]; v[d] = (x >>> 8) | (x << 24);
      v[c] += v[d];
      x = v[b] ^ v[c]; v[b] = (x >>> 7) | (x << 25);
    }
    const old = m;
    m = PERMUTATION.map((i) => old[i]);
  }
  return Uint32Array.from({ length: 8 }, (_, i) => v[i] ^ v[i + 8]);
}

function words(block) {
  const whole = new Uint8Array(64);
  whole.set(block);
  const view = new DataView(whole.buffer);
  return Array.from({ length: 16 }, (_, i) => view.getUint32(4 * i, true));
}

// node hashes data, whose first 1024 bytes are chunk number chunk.
function node(data, chunk, root) {
  if (data.length <= 1024) {
    let h = H256;
    const last = Math.floor(Math.max(0, data.length - 1) / 64) * 64;
    for (let at = 0; at <= last; at += 64) {
      const block = data.subarray(at, at + 64);
      const flags = (at === 0 ? CHUNK_START : 0) | (at === last ? CHUNK_END | root : 0);
      h = compress(h, words(block), chunk, block.length, flags);
    }
    return h;
  }
  let cut = 1024; // The left side has as many chunks as a power of two below their number.
  while (cut * 2 < data.length) cut *= 2;
  const left = node(data.subarray(0, cut), chunk, 0);
  const right = node(data.subarray(cut), chunk + cut / 1024, 0);
  return compress(H256, [...left, ...right], 0, 64, PARENT | root);
}

export function blake3(bytes) {
  const out = new DataView(new ArrayBuffer(32));
  node(bytes, 0, ROOT).forEach((x, i) => out.setUint32(4 * i, x, true));
  return new Uint8Array(out.buffer);
}
