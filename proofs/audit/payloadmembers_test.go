package audit

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// The walk checks that digests of payload members are computed with the ledger's secret and that
// the first event commits to this secret. It reports digests that are missing or that an event must
// not have.
func TestWrongPayloadMembers(t *testing.T) {
	const other = `"00112233445566778899aabbccddeeff"`
	sound := newMemory(t, 20)
	sound.post(t, record.EventContext{Actor: "lab", Ledger: "default"}, 20, "")
	r, err := ledgerLimits.ParseRecord(record.KindIPCRecord, []byte(`{"payload":{"a":1,"b/c":{"d":[1.50]},"seed":7},"model":"m"}`))
	require.NoError(t, err)
	for _, c := range r.Contents {
		sound.contents[c.Digest] = slices.Clone(c.Bytes)
		sound.needs[c.Digest] = append(sound.needs[c.Digest], 21)
	}
	sound.add(r.AppendBodyPrefix(nil, record.EventContext{Actor: "lab", Ledger: "default"}))
	sound.head.Size = uint64(len(sound.entries))
	sound.seal(t)
	require.Nil(t, walked(t, sound).Damage)
	body := string(sound.entries[21])
	digest := func(pointer string) string {
		_, after, found := strings.Cut(body, `"`+pointer+`":`)
		require.True(t, found, pointer)
		return after[:2*members.DigestSize+2]
	}
	_, members, _ := strings.Cut(body, `"payload_members":`)
	members, _, _ = strings.Cut(members, `,"seed"`)
	commitment := string(rules.AppendHex(nil, testSecret.Commitment()))
	reword := func(from, to string) func(*testing.T, *memory) { return editBody(21, from, to) }
	for _, c := range []struct {
		name   string
		change func(*testing.T, *memory)
		says   string
		log    bool // whether the log alone reveals the damage
	}{
		{"another digest", reword(digest("/a"), other), `check: "/record/payload_members/~1a", at entry 21: `, false},
		{"digests exchanged", reword(members, strings.NewReplacer(digest("/a"), digest("/b~1c"), digest("/b~1c"), digest("/a")).Replace(members)), `check: "/record/payload_members/~1a", at entry 21: `, false},
		{"another pointer", reword(`"/a"`, `"/aa"`), `at entry 21: `, false},
		{"one too few", reword(`"/a":`+digest("/a")+`,`, ``), `check: "/record/payload_members/~1a", at entry 21: `, false},
		{"null", reword(members, `null`), `check: "/record/payload_members", at entry 21: `, false},
		{"out of order", reword(`"/a":`+digest("/a")+`,"/b~1c":`+digest("/b~1c"), `"/b~1c":`+digest("/b~1c")+`,"/a":`+digest("/a")), `event: at entry 21: the event's payload_members is`, true},
		{"no pointer", reword(`"/b~1c"`, `"/b/c"`), `event: at entry 21: the event's payload_members is`, true},
		{"too short a digest", reword(digest("/a"), `"00"`), `event: at entry 21: the event's payload_members is`, true},
		{"no members", reword(`"payload_members":`+members+`,`, ``), `check: "payload_members", at entry 21: the event has no digests`, true},
		{"members without a payload", editBody(20, `"model":"m",`, `"model":"m","payload_members":{},`), `check: "payload_members", at entry 20: the event has digests of payload members, but no payload`, true},
		{"no commitment", editBody(0, `"member_secret_hash":"`+commitment+`",`, ``), `check: "payload_members", at entry 21: the event has digests of payload members, but the first`, true},
		{"another commitment", editBody(0, commitment, strings.Repeat("0", 64)), `content: "member_secret", at entry 0: altered: the secret's hash is`, false},
		{"a commitment of another form", editBody(0, commitment, "00"), `event: at entry 0: the event's member_secret_hash is`, true},
		{"another secret", func(_ *testing.T, m *memory) { m.secret = bytes.Repeat([]byte{1}, 32) }, `content: "member_secret", at entry 0: altered: the secret's hash is`, false},
		{"a short secret", func(_ *testing.T, m *memory) { m.secret = []byte{1} }, `content: "member_secret", at entry 0: altered: the payload-member secret has 1 bytes`, false},
		{"no secret", func(_ *testing.T, m *memory) { m.secret = nil }, `content: "member_secret", at entry 0: missing`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := sound.clone()
			c.change(t, m)
			damage := walked(t, m).Damage
			require.NotNil(t, damage)
			require.ErrorContains(t, damage, c.says)
			once, steps := newAuditor(), newAuditor()
			first := beginning(t, m, 5)
			_ = steps.walk(t, first)
			for _, damage := range []*Damage{once.walk(t, m).Damage, steps.walk(t, m).Damage} {
				if c.log {
					require.ErrorContains(t, damage, c.says)
				} else {
					require.Nil(t, damage)
				}
			}
		})
	}
	// Without the secret, Rebuilder does not compare digests, only pointers.
	for change, wrong := range map[string]bool{digest("/a") + "->" + other: false, `"/a"->"/aa"`: true} {
		from, to, _ := strings.Cut(change, "->")
		m := sound.clone()
		editBody(21, from, to)(t, m)
		err := new(Rebuilder).Check(21, m.entries[21][proofs.HashSize:], func(_ string, digest proofs.Hash) ([]byte, error) { return m.contents[digest], nil })
		require.Equal(t, wrong, err != nil, "%s: %v", change, err)
	}
}
