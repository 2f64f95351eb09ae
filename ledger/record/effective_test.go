package record

import "colophon/ledger/record/pyjson"

// EffectiveHash returns the effective hash with the given name, in hexadecimal digits, or "" if the
// hash is null or missing.
func (r *Record) EffectiveHash(name string) string {
	var hashes pyjson.Document
	if err := hashes.Parse(r.HashesJSON()); err != nil {
		panic(err)
	}
	return string(hashes.Root().Member(name).Text())
}
