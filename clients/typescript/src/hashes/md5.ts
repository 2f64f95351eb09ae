// MD5 (RFC 1321), which WebCrypto lacks. Paths use it as an identifier, never as a security claim.

const shifts = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21];
const constants = Array.from({ length: 64 }, (_, i) => Math.floor(Math.abs(Math.sin(i + 1)) * 2 ** 32) | 0);

/** Returns the MD5 of bytes in hexadecimal. */
export function md5(bytes: Uint8Array): string {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n, true);
  const state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
  for (let block = 0; block < padded.length; block += 64) {
    let [a, b, c, d] = state as [number, number, number, number];
    for (let i = 0; i < 64; i++) {
      const round = i >> 4;
      const mixed = [(b & c) | (~b & d), (d & b) | (~d & c), b ^ c ^ d, c ^ (b | ~d)][round]!;
      const word = [i, 5 * i + 1, 3 * i + 5, 7 * i][round]! % 16;
      const sum = (a + mixed + constants[i]! + view.getInt32(block + 4 * word, true)) | 0;
      const shift = shifts[4 * round + (i % 4)]!;
      [a, b, c, d] = [d, (b + ((sum << shift) | (sum >>> (32 - shift)))) | 0, b, c];
    }
    for (const [i, value] of [a, b, c, d].entries()) state[i] = (state[i]! + value) | 0;
  }
  const result = new DataView(new ArrayBuffer(16));
  state.forEach((word, i) => result.setInt32(4 * i, word, true));
  return Array.from({ length: 16 }, (_, i) => result.getUint8(i).toString(16).padStart(2, "0")).join("");
}
