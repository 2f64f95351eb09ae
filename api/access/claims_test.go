package access

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
)

// A token that two parsers could interpret differently is refused, even if its signature is valid.
func TestClaimsMeanOneThing(t *testing.T) {
	p := newProvider(t)
	b := p.trusting()
	now := p.clock.now()
	past, future := now.Add(-time.Hour).Unix(), now.Add(time.Hour).Unix()
	holds := p.claims(set("aud", "colophon"))
	// signed returns a signed token with valid claims. change modifies the claims, and more adds members.
	signed := func(more string, change ...func(map[string]any)) string {
		claims := p.claims(append([]func(map[string]any){set("aud", "colophon")}, change...)...)
		payload, err := json.Marshal(claims)
		require.NoError(t, err)
		return signText(t, jose.RS256, p.keys["first"], "first", []byte(strings.TrimSuffix(string(payload), "}")+more+"}"))
	}
	text := func(value any) string {
		encoded, err := json.Marshal(value)
		require.NoError(t, err)
		return string(encoded)
	}
	without := func(name string) func(map[string]any) {
		return func(claims map[string]any) { delete(claims, name) }
	}
	b.accepts(with("Bearer "+signed(`,"Groups":["writers"],"EMAIL":"a"`)), "oidc:alice")
	for name, c := range map[string]struct{ token, reason string }{
		"EXP after exp":        {signed(`,"EXP":`+text(future), set("exp", past)), "only in case"},
		"EXP alone":            {signed(`,"EXP":`+text(future), without("exp")), "only in case"},
		"AUD after aud":        {signed(`,"AUD":"colophon"`, set("aud", "other")), "only in case"},
		"Aud, a list":          {signed(`,"Aud":["colophon"]`, set("aud", []string{"other"})), "only in case"},
		"ISS after iss":        {signed(`,"ISS":` + text(p.url)), "only in case"},
		"iss with a long s":    {signed(`,"i\u017fs":` + text(p.url)), "only in case"},
		"NBF after nbf":        {signed(`,"NBF":`+text(past), set("nbf", future)), "only in case"},
		"Sub after sub":        {signed(`,"Sub":"admin"`), "only in case"},
		"_CLAIM_NAMES":         {signed(`,"_CLAIM_NAMES":{}`), "only in case"},
		"iss twice":            {signed(`,"iss":` + text(p.url)), "payload of the JWT"},
		"iss twice, escaped":   {signed(`,"\u0069ss":` + text(p.url)), "payload of the JWT"},
		"exp twice":            {signed(`,"exp":`+text(future), set("exp", past)), "payload of the JWT"},
		"groups twice":         {signed(`,"groups":["writers"]`, set("groups", []string{"readers"})), "payload of the JWT"},
		"twice, further down":  {signed(`,"x":[{"a":1,"a":1}]`), "payload of the JWT"},
		"exp a text":           {signed("", set("exp", text(future))), `claim \"exp\"`},
		"exp far beyond":       {signed("", without("exp"), set("exp", 1e300)), `claim \"exp\"`},
		"exp before 1970":      {signed("", set("exp", -1)), `claim \"exp\"`},
		"exp null":             {signed("", set("exp", nil)), `claim \"exp\"`},
		"nbf a text":           {signed("", set("nbf", text(past))), `claim \"nbf\"`},
		"aud an object":        {signed("", set("aud", map[string]any{"colophon": "colophon"})), "is not for the audience"},
		"aud a list in a list": {signed("", set("aud", []any{[]string{"colophon"}})), "is not for the audience"},
	} {
		before := len(b.log.String())
		_, err := b.Authenticate(with("Bearer " + c.token))
		require.Equal(t, ErrInvalidCredentials, err, name)
		require.Contains(t, b.log.String()[before:], c.reason, name)
	}
	b.accepts(with("Bearer "+sign(t, jose.RS256, p.keys["first"], "first", holds)), "oidc:alice")
	b.accepts(with("Bearer "+signed("", set("exp", float64(future)+0.5), set("nbf", nil))), "oidc:alice")
}

// If a cheap check refuses a token, its signature is not verified.
func TestSignaturesAreVerifiedWhereTheyDecide(t *testing.T) {
	p := newProvider(t)
	b := p.trusting()
	made := b.token("one")
	asked := 0
	judge := func(token string, may bool) error {
		_, err := b.AuthenticateLimited(with("Bearer "+token), func() bool { asked++; return may })
		return err
	}
	good := sign(t, jose.RS256, p.keys["first"], "first", p.claims())
	require.NoError(t, judge(made.Text, false))
	require.Equal(t, ErrInvalidCredentials, judge(made.Text+"a", false))
	require.Equal(t, ErrInvalidCredentials, judge("abc", false))
	require.Equal(t, ErrInvalidCredentials, judge(sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("exp", p.clock.now().Unix()-1))), false))
	require.Equal(t, ErrInvalidCredentials, judge(sign(t, jose.RS256, p.keys["first"], "first", p.claims(set("aud", "other"))), false))
	require.Zero(t, asked)
	require.Equal(t, ErrVerificationSkipped, judge(good, false))
	require.Equal(t, 1, p.times("/keys"), "the keys were fetched with the discovery only")
	require.NoError(t, judge(good, true))
	require.Equal(t, 2, asked)
}

func FuzzClaims(f *testing.F) {
	f.Add([]byte(`{"iss":"a","aud":["b","c"],"exp":1,"nbf":0}`))
	f.Add([]byte(`{"iss":"a","aud":"b","exp":1.5e3,"EXP":2}`))
	f.Add([]byte(`{"iss":"a","iss":"b"}`))
	f.Add([]byte(`{"i\u017fs":"a","aud":[],"exp":""}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := parseClaims(payload)
		if err != nil {
			return
		}
		// encoding/json, which ignores the case of names, must find the same claims as parseClaims.
		var read struct {
			Issuer  any `json:"iss"`
			Expiry  any `json:"exp"`
			Subject any `json:"sub"`
		}
		if json.Unmarshal(payload, &read) != nil {
			return // a number is out of range
		}
		require.Equal(t, read.Issuer != nil, c.value("iss").IsGiven())
		require.Equal(t, read.Expiry != nil, c.value("exp").IsGiven())
		require.Equal(t, read.Subject != nil, c.value("sub").IsGiven())
		if c.check(IssuerRule{Issuer: c.issuer(), Audience: "b"}, time.Unix(0, 0)) == nil {
			require.Contains(t, texts(c.value("aud")), "b")
			require.IsType(t, 0.0, read.Expiry)
		}
	})
}

func FuzzUnverifiedClaims(f *testing.F) {
	f.Add("a.eyJpc3MiOiJhIn0.b")
	f.Add("a.b")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := unverifiedClaims(token); err == nil {
			require.Equal(t, 2, strings.Count(token, "."))
		}
	})
}
