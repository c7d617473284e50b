// SHA-256 and SHA-512 (FIPS 180-4), BLAKE3 for hashing only (c2sp.org/BLAKE3).
//
// WebCrypto has no BLAKE3, has nothing on plain HTTP, and answers later. One
// implementation that runs everywhere gives one verdict everywhere.

// The constants are the fractions of roots of the first primes, so they are computed:
// a reviewer need not compare 144 numbers with the standard.
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

// padded is the end of a message as both hashes have it: the bytes, a bit, zeros, and
// the length of the whole message in bits.
function padded(bytes, block, lengthBytes, length) {
  const size = Math.ceil((bytes.length + 1 + lengthBytes) / block) * block;
  const out = new Uint8Array(size);
  out.set(bytes);
  out[bytes.length] = 0x80;
  for (let i = 1, bits = length * 8; bits > 0; i++, bits = Math.floor(bits / 256)) out[size - i] = bits % 256;
  return out;
}

// W256 is the message schedule, which every block writes anew: a transcript has hundreds
// of thousands of lines, and making one for each kept the garbage collector busy.
const W256 = new Int32Array(64);

function sha256Block(h, data, at) {
  const w = W256;
  for (let i = 0; i < 16; i++, at += 4) w[i] = (data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3];
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15], y = w[i - 2];
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
  }
  let a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], k = h[7];
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (k + s1 + ((e & f) ^ (~e & g)) + K256[i] + w[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    k = g; g = f; f = e; e = (d + t1) | 0; d = c; c = b; b = a; a = (t1 + t2) | 0;
  }
  h[0] += a; h[1] += b; h[2] += c; h[3] += d; h[4] += e; h[5] += f; h[6] += g; h[7] += k;
}

export function sha256(bytes) {
  const h = H256.slice(), whole = bytes.length - (bytes.length % 64);
  for (let at = 0; at < whole; at += 64) sha256Block(h, bytes, at);
  // The end: what is left, and what ends every message.
  const end = padded(bytes.subarray(whole), 64, 8, bytes.length);
  for (let at = 0; at < end.length; at += 64) sha256Block(h, end, at);
  const out = new Uint8Array(32);
  for (let i = 0; i < 8; i++) for (let k = 0; k < 4; k++) out[4 * i + k] = h[i] >>> (24 - 8 * k);
  return out;
}

export function sha512(bytes) {
  const mask = 0xffffffffffffffffn;
  const turn = (x, n) => ((x >> n) | (x << (64n - n))) & mask;
  const data = new DataView(padded(bytes, 128, 16, bytes.length).buffer);
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

// BLAKE3's first words are those of SHA-256. SCHEDULE says which word of the message each
// step of each round takes: the rounds take them in an order that is permuted again and
// again.
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const LANES = Uint8Array.of(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 5, 10, 15, 1, 6, 11, 12, 2, 7, 8, 13, 3, 4, 9, 14);
const CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8;
const SCHEDULE = new Uint8Array(7 * 16);
for (let i = 0; i < 16; i++) SCHEDULE[i] = i;
for (let i = 16; i < SCHEDULE.length; i++) SCHEDULE[i] = SCHEDULE[(Math.floor(i / 16) - 1) * 16 + PERMUTATION[i % 16]];

const V3 = new Int32Array(16); // the state, which every block writes anew
const M3 = new Int32Array(16); // the words of the block

// compress takes the block in M3.
function compress(h, counter, length, flags) {
  const v = V3, m = M3;
  for (let i = 0; i < 8; i++) v[i] = h[i];
  for (let i = 0; i < 4; i++) v[8 + i] = H256[i];
  v[12] = counter % 4294967296;
  v[13] = Math.floor(counter / 4294967296);
  v[14] = length;
  v[15] = flags;
  for (let at = 0, lane = 0; at < SCHEDULE.length; at += 2, lane = (lane + 4) % 32) {
    const a = LANES[lane], b = LANES[lane + 1], c = LANES[lane + 2], d = LANES[lane + 3];
    v[a] += v[b] + m[SCHEDULE[at]];
    let x = v[d] ^ v[a]; v[d] = (x >>> 16) | (x << 16);
    v[c] += v[d];
    x = v[b] ^ v[c]; v[b] = (x >>> 12) | (x << 20);
    v[a] += v[b] + m[SCHEDULE[at + 1]];
    x = v[d] ^ v[a]; v[d] = (x >>> 8) | (x << 24);
    v[c] += v[d];
    x = v[b] ^ v[c]; v[b] = (x >>> 7) | (x << 25);
  }
  const out = new Uint32Array(8);
  for (let i = 0; i < 8; i++) out[i] = v[i] ^ v[i + 8];
  return out;
}

// read puts a block into M3, with zeros after its end.
function read(data, from, to) {
  for (let i = 0; i < 16; i++) {
    const at = from + 4 * i;
    M3[i] = at + 4 <= to
      ? data[at] | (data[at + 1] << 8) | (data[at + 2] << 16) | (data[at + 3] << 24)
      : (at < to ? data[at] : 0) | (at + 1 < to ? data[at + 1] << 8 : 0) | (at + 2 < to ? data[at + 2] << 16 : 0);
  }
}

// node hashes data, whose first 1024 bytes are chunk number chunk.
function node(data, chunk, root) {
  if (data.length <= 1024) {
    let h = H256;
    const last = Math.floor(Math.max(0, data.length - 1) / 64) * 64;
    for (let at = 0; at <= last; at += 64) {
      const to = Math.min(at + 64, data.length);
      const flags = (at === 0 ? CHUNK_START : 0) | (at === last ? CHUNK_END | root : 0);
      read(data, at, to);
      h = compress(h, chunk, to - at, flags);
    }
    return h;
  }
  let cut = 1024; // The left side has as many chunks as a power of two below their number.
  while (cut * 2 < data.length) cut *= 2;
  const left = node(data.subarray(0, cut), chunk, 0);
  const right = node(data.subarray(cut), chunk + cut / 1024, 0);
  M3.set(left);
  M3.set(right, 8);
  return compress(H256, 0, 64, PARENT | root);
}

export function blake3(bytes) {
  const out = new DataView(new ArrayBuffer(32));
  node(bytes, 0, ROOT).forEach((x, i) => out.setUint32(4 * i, x, true));
  return new Uint8Array(out.buffer);
}
