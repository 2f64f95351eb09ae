package record

import (
	"testing"

	"colophon/ledger/record/members"
)

// BenchmarkMembers parses a record with eight payload members and writes its event, with and
// without digests of these members.
func BenchmarkMembers(b *testing.B) {
	body := []byte(`{"run_id":"r","payload":{"axes":{"difficulty":{"label":"plain","score":0.5},"style":{"label":"formal","score":0.25},"tone":{"label":"terse","score":1.0}},"policy_hash":"0000000000000000000000000000000000000000000000000000000000000001","seed":7,"world_id":"w1","instruction":"river stone lamp north seven bright cold gate echo moss harbor salt wire dust green river stone lamp north seven","dataset":"helpful_base","entity":"e1","channel":"say","room":"r1"},"system_prompt":"Be kind.","output":"Yes.","model":"m","temperature":0.7,"max_tokens":256}`)
	for name, secret := range map[string]*members.Secret{"none": nil, "eight": members.NewSecret()} {
		b.Run(name, func(b *testing.B) {
			limits := DefaultLimits().WithPayloadMemberSecret(secret)
			b.ReportAllocs()
			for b.Loop() {
				r, err := limits.ParseRecord(KindIPCRecord, body)
				if err != nil {
					b.Fatal(err)
				}
				r.BodyPrefix(EventContext{Actor: "a", Ledger: "l"})
				r.Release()
			}
		})
	}
}
