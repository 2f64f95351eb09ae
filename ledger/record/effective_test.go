package record

import "colophon/ledger/record/pyjson"

// EffectiveHash returns an effective hash by name, in hexadecimal digits. It returns "" if the
// hash is null or missing.
func (r *Record) EffectiveHash(name string) string {
	var hashes pyjson.Document
	if err := hashes.Parse(r.HashesJSON()); err != nil {
		panic(err)
	}
	return string(hashes.Root().Member(name).Text())
}
