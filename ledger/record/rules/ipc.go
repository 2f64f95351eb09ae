package rules

import (
	"crypto/sha256"
	"slices"

	"colophon/ledger/record/pyjson"
)

// AxisPayloadSchema is the name of the schema whose payloads are normalised before they are hashed (spec:
// Axis payload).
const AxisPayloadSchema = "axis-payload-1"

// EnvironmentMembers lists the members of a record's environment. The hash ipc_id_advanced covers them in
// this order (spec: IPC hashes).
var EnvironmentMembers = [3]string{"ollama_build_hash", "model_digest", "host_platform"}

// IPCID returns the ID of an interpretive provenance chain (IPC): the SHA-256 of its parts, joined
// by colons. The result is ipc_id or, if the last parts are the values of the environment,
// ipc_id_advanced (spec: IPC hashes). IPCID uses scratch as a buffer and returns it so that the
// next call can reuse it.
func IPCID(scratch []byte, parts ...[]byte) (Hash, []byte) {
	scratch = scratch[:0]
	for i, part := range parts {
		if i > 0 {
			scratch = append(scratch, ':')
		}
		scratch = append(scratch, part...)
	}
	return sha256.Sum256(scratch), scratch
}

// PayloadHashes returns the hash of a payload in spaced canonical JSON (spec: IPC hashes). If
// excludeSeed is true, it also returns the hash of the payload without its top-level member "seed"
// (spec: Seedless hash). If member is not nil, PayloadHashes calls it with the name and the
// canonical value of each member, sorted by name. If excludeSeed is true, it does not call member
// for "seed". PayloadHashes uses scratch as a buffer and returns it so that the next call can reuse
// it.
func PayloadHashes(scratch []byte, payload pyjson.Value, excludeSeed bool, member func(name, form []byte)) (whole, seedless Hash, _ []byte) {
	scratch = append(slices.Grow(scratch[:0], len(payload.Raw())), '{')
	from, to := 0, 0 // range of the member "seed", including one separator
	for name, value := range payload.SortedMembers() {
		start := len(scratch)
		if start > len("{") {
			scratch = append(scratch, ", "...)
		}
		scratch = append(name.AppendCanonical(scratch, pyjson.SpacedForm), ": "...)
		form := len(scratch)
		scratch = value.AppendCanonical(scratch, pyjson.SpacedForm)
		if excludeSeed && string(name.Text()) == "seed" {
			from, to = start, len(scratch)
		} else if member != nil {
			member(name.Text(), scratch[form:])
		}
	}
	scratch = append(scratch, '}')
	whole = sha256.Sum256(scratch)
	if !excludeSeed {
		return whole, Hash{}, scratch
	}
	if from == len("{") && scratch[to] == ',' { // seed is the first of several members
		to += len(", ")
	}
	scratch = append(scratch[:from], scratch[to:]...)
	return whole, sha256.Sum256(scratch), scratch
}

// PayloadAxis is a named and labelled score in a payload with the schema AxisPayloadSchema. Score
// must be between 0 and 1.
type PayloadAxis struct {
	Name, Label []byte
	Score       float64
}

// AxisPayloadHashes is like PayloadHashes, but for an axis payload built from axes, policyHash,
// seed, and worldID (spec: Axis payload). It strips whitespace from the labels. The names of the
// axes must be distinct, and seed must be in decimal. AxisPayloadHashes returns an error if the
// payload exceeds the limits of package pyjson.
func AxisPayloadHashes(axes []PayloadAxis, policyHash, seed, worldID []byte, excludeSeed bool, member func(name, form []byte)) (whole, seedless Hash, err error) {
	w := new(pyjson.Builder)
	w.BeginObject()
	w.BeginMember("axes")
	w.BeginObject()
	for _, axis := range axes {
		w.BeginMember(string(axis.Name))
		w.BeginObject()
		w.AddText("label", pyjson.Strip(axis.Label))
		w.BeginMember("score")
		w.Buf = pyjson.AppendFloat(w.Buf, axis.Score)
		w.EndObject()
	}
	w.EndObject()
	w.AddText("policy_hash", policyHash)
	w.AddRaw("seed", seed)
	w.AddText("world_id", worldID)
	w.EndObject()
	var document pyjson.Document
	if err := document.Parse(w.Buf); err != nil {
		return Hash{}, Hash{}, err
	}
	whole, seedless, _ = PayloadHashes(nil, document.Root(), excludeSeed, member)
	return whole, seedless, nil
}
