package rules

import (
	"crypto/sha256"
	"slices"

	"colophon/ledger/record/pyjson"
)

// AxisPayload names the schema in which the payload is normalised before it is
// hashed (spec: Axis payload).
const AxisPayload = "axis-payload-1"

// Environment are the members of environment, in the order in which ipc_id_advanced covers
// them (spec: IPC hashes).
var Environment = [3]string{"ollama_build_hash", "model_digest", "host_platform"}

// ChainID is ipc_id or, with the values of the environment at the end of the parts,
// ipc_id_advanced: the SHA-256 of the parts joined by colons (spec: IPC hashes). scratch is
// overwritten and returned, for the next call.
func ChainID(scratch []byte, parts ...[]byte) (Hash, []byte) {
	scratch = scratch[:0]
	for i, part := range parts {
		if i > 0 {
			scratch = append(scratch, ':')
		}
		scratch = append(scratch, part...)
	}
	return sha256.Sum256(scratch), scratch
}

// PayloadHash is the hash of a payload in spaced canonical JSON (spec: IPC hashes). scratch is
// overwritten and returned, for the next call.
func PayloadHash(scratch []byte, payload pyjson.Value) (Hash, []byte) {
	scratch = payload.AppendCanonical(slices.Grow(scratch[:0], len(payload.Raw())), pyjson.Spaced)
	return sha256.Sum256(scratch), scratch
}

// Axis is one axis of a payload of the schema axis-payload-1. Score is from 0 to 1.
type Axis struct {
	Name, Label []byte
	Score       float64
}

// AxisPayloadHash is the hash of a payload of the schema axis-payload-1 (spec: Axis payload):
// labels stripped, other members dropped. The names of axes differ. seed is decimal. The error is
// that of a payload which nests or counts more than JSON may.
func AxisPayloadHash(axes []Axis, policyHash, seed, worldID []byte) (Hash, error) {
	w := new(pyjson.Builder)
	w.Open()
	w.Name("axes")
	w.Open()
	for _, axis := range axes {
		w.Name(string(axis.Name))
		w.Open()
		w.Text("label", pyjson.Strip(axis.Label))
		w.Name("score")
		w.B = pyjson.AppendFloat(w.B, axis.Score)
		w.Close()
	}
	w.Close()
	w.Text("policy_hash", policyHash)
	w.Raw("seed", seed)
	w.Text("world_id", worldID)
	w.Close()
	var document pyjson.Document
	if err := document.Parse(w.B); err != nil {
		return Hash{}, err
	}
	sum, _ := PayloadHash(nil, document.Root())
	return sum, nil
}
