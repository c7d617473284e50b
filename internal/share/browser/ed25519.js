// Ed25519, for verifying only (RFC 8032, section 5.1), without cofactor and with every
// value in its one encoding; keys as docs/formats/signers.md, Weak keys. There is no
// secret here, so nothing has to take the same time.
import { equal, concat } from "./bytes.js";
import { sha512 } from "./hash.js";

const P = 2n ** 255n - 19n; // the field
const L = 2n ** 252n + 27742317777372353535851937790883648493n; // the order of the base point

const mod = (x) => {
  const r = x % P;
  return r < 0n ? r + P : r;
};

function pow(x, n) {
  let r = 1n;
  for (; n > 0n; n >>= 1n, x = (x * x) % P) if (n & 1n) r = (r * x) % P;
  return r;
}

const D = mod(-121665n * pow(121666n, P - 2n)); // the curve: -x² + y² = 1 + D x² y²

function littleEndian(bytes) {
  let n = 0n;
  for (let i = bytes.length - 1; i >= 0; i--) n = (n << 8n) | BigInt(bytes[i]);
  return n;
}

// The y coordinates of the eight points of small order.
const SMALL_ORDER = [
  0n, 1n, P - 1n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
];

// isWeak says whether a public key must not be trusted: whatever it signed would fit
// other messages too, or it has a second spelling.
export function isWeak(key) {
  const y = littleEndian(key) & (2n ** 255n - 1n);
  return key.length !== 32 || y >= P || SMALL_ORDER.includes(y);
}

// point is the point that 32 bytes stand for (y, and the lowest bit of x), or null.
function point(bytes) {
  const n = littleEndian(bytes);
  const y = n & (2n ** 255n - 1n), odd = n >> 255n;
  const square = mod((y * y - 1n) * pow(mod(D * y * y + 1n), P - 2n));
  let x = pow(square, (P + 3n) / 8n);
  if (mod(x * x) !== square) x = (x * pow(2n, (P - 1n) / 4n)) % P; // times the root of -1
  if (y >= P || mod(x * x) !== square || (x === 0n && odd)) return null;
  if ((x & 1n) !== odd) x = P - x;
  return [x, y, 1n, (x * y) % P];
}

// add is the sum of two points X, Y, Z, T with x = X/Z, y = Y/Z, x y = T/Z.
function add(p, q) {
  const a = (p[1] - p[0]) * (q[1] - q[0]), b = (p[1] + p[0]) * (q[1] + q[0]);
  const c = 2n * ((D * p[3]) % P) * q[3], d = 2n * p[2] * q[2];
  const e = mod(b - a), f = mod(d - c), g = mod(d + c), h = mod(b + a);
  return [(e * f) % P, (g * h) % P, (f * g) % P, (e * h) % P];
}

// The base point has y = 4/5 and an even x. Computed when it is first needed.
let base = null;
function basePoint() {
  if (!base) {
    const y = mod(4n * pow(5n, P - 2n));
    base = point(Uint8Array.from({ length: 32 }, (_, i) => Number((y >> BigInt(8 * i)) & 255n)));
  }
  return base;
}

// verifies says whether the key signed the message.
export function verifies(key, message, signature) {
  if (signature.length !== 64 || isWeak(key)) return false;
  const a = point(key), s = littleEndian(signature.subarray(32));
  if (!a || s >= L) return false;
  const k = littleEndian(sha512(concat(signature.subarray(0, 32), key, message))) % L;
  // R must be s B - k A.
  const minusA = [P - a[0], a[1], 1n, P - a[3]];
  const table = [null, basePoint(), minusA, add(basePoint(), minusA)];
  let r = [0n, 1n, 1n, 0n];
  for (let bit = 252n; bit >= 0n; bit--) {
    r = add(r, r);
    const pick = Number((s >> bit) & 1n) + 2 * Number((k >> bit) & 1n);
    if (pick) r = add(r, table[pick]);
  }
  const z = pow(r[2], P - 2n);
  const x = (r[0] * z) % P, y = (r[1] * z) % P;
  const encoded = y | ((x & 1n) << 255n);
  return equal(Uint8Array.from({ length: 32 }, (_, i) => Number((encoded >> BigInt(8 * i)) & 255n)), signature.subarray(0, 32));
}
