package record

import "colophon/ledger/record/pyjson"

// EffectiveHash is the effective hash of that name in hexadecimal; empty when
// it is null or the record has none of that name.
func (r *Record) EffectiveHash(name string) string {
	var hashes pyjson.Document
	if err := hashes.Parse(r.HashesJSON()); err != nil {
		panic(err)
	}
	return string(hashes.Root().Member(name).Text())
}
