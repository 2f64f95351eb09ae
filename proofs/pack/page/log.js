// The log: keys and signed notes (C2SP signed-note, tlog-checkpoint), and the tree of
// RFC 6962.

// readKey reads a verifier key, <name>+<id>+<base64>.
async function readKey(text) {
  const parts = /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+=*)$/.exec(text.trim());
  need(parts, "this is not a verifier key, which looks like name+12345678+A…");
  const [, name, id, material] = parts, bytes = fromBase64(material);
  need(bytes.length === 33 && bytes[0] === 1, "this is not the verifier key of an Ed25519 key");
  const sum = await sha256(wtf8(name + "\n"), bytes);
  need(toHex(sum.slice(0, 4)) === id, "this verifier key is damaged: its number is not that of the key");
  return { text: text.trim(), name, id, public: bytes.slice(1) };
}

async function signedBy(key, message, signature) {
  let imported;
  try {
    imported = await crypto.subtle.importKey("raw", key.public, { name: "Ed25519" }, false, ["verify"]);
  } catch {
    throw new Unable("this browser cannot check Ed25519 signatures");
  }
  return crypto.subtle.verify({ name: "Ed25519" }, imported, signature, message);
}

// readCheckpoint reads a signed note; nothing is checked yet.
function readCheckpoint(note) {
  const end = note.lastIndexOf("\n\n");
  need(end >= 0 && note.endsWith("\n"), "the checkpoint is malformed");
  const signed = note.slice(0, end + 1), [origin, size, root] = signed.split("\n");
  need(/^(0|[1-9]\d{0,15})$/.test(size) && Number.isSafeInteger(Number(size)), "the checkpoint is malformed");
  need(/^[A-Za-z0-9+/]{43}=$/.test(root ?? ""), "the checkpoint is malformed");
  const signatures = note.slice(end + 2, -1).split("\n").map((line) => {
    const parts = /^— (\S+) ([A-Za-z0-9+/]+=*)$/.exec(line);
    need(parts, "the checkpoint is malformed");
    const bytes = fromBase64(parts[2]);
    return { name: parts[1], id: toHex(bytes.slice(0, 4)), bytes: bytes.slice(4) };
  });
  return { origin, size: Number(size), root: fromBase64(root), signed, signatures };
}

// signerOf checks every signature by a known key, and gives the key of the origin.
async function signerOf(checkpoint, keys) {
  const signers = [];
  for (const signature of checkpoint.signatures) {
    const key = keys.find((k) => k.name === signature.name && k.id === signature.id);
    if (!key) continue;
    const holds = await signedBy(key, wtf8(checkpoint.signed), signature.bytes);
    need(holds, "the signature does not hold: the checkpoint is not what this key signed");
    signers.push(key);
  }
  need(signers.length > 0, "the checkpoint is signed with another key, so that it says nothing about the log of this one");
  const signer = signers.find((key) => key.name === checkpoint.origin);
  need(signer, "the checkpoint is of " + checkpoint.origin + ", which did not sign it");
  return signer;
}

async function leafHash(entry) {
  return sha256([0], entry);
}

// rootOf is where the path of a leaf leads (RFC 9162, 2.1.3.2).
async function rootOf(leaf, index, size, path) {
  need(index < size, "it is beyond the end of the signed tree");
  let node = leaf, last = size - 1;
  for (const sibling of path) {
    need(last > 0, "its path in the tree is too long");
    if (index % 2 === 1 || index === last) {
      node = await sha256([1], sibling, node);
      while (index % 2 === 0 && index !== 0) {
        index /= 2;
        last = Math.floor(last / 2);
      }
    } else {
      node = await sha256([1], node, sibling);
    }
    index = Math.floor(index / 2);
    last = Math.floor(last / 2);
  }
  need(last === 0, "its path in the tree is too short");
  return node;
}
