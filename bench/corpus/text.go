package corpus

import (
	"bytes"
	"math/rand/v2"
	"strings"
)

// words lists the words of all texts. Earlier words are chosen more often, so that the texts
// compress about as well as English.
var words = strings.Fields(`the of and to a in is that it was for on are with as his they be at one have this from
	or had by not but what all were when we there can an your which their said if do will each about how up out
	them then she many some so these would other into has more her two like him see time could no make than first
	been its who now people my made over did down only way find use may water long little very after words called
	just where most know get through back much before go good new write our used me man too any day same right look
	think also around another came come work three word must because does part even place well such here take why
	things help put years different away again off went old number great tell men say small every found still
	between name should home big give air line set own under read last never us left end along while might next
	sound below saw something thought both few those always looked show large often together asked house world
	going want school important until form food keep children feet land side without boy once animals life enough
	took sometimes four head above kind began almost live page got earth need far hand high year mother light parts
	country father let night following picture being study second eyes soon times story boys since white days ever
	paper hard near sentence better best across during today others however sure means knew try told young miles
	sun ways thing whole hear example heard several change answer room sea against top turned learn point city play
	toward five using himself usually money evidence provenance retrieval citation model temperature prompt output`)

// appendText appends count random words, in sentences. The text needs no escaping and neither
// begins nor ends with a space.
func appendText(dst []byte, random *rand.Rand, count int) []byte {
	begin := len(dst)
	for i := range count {
		if i > 0 {
			dst = append(dst, ' ')
		}
		word := words[min(random.IntN(len(words)), random.IntN(len(words)))]
		capital := len(dst) == begin || dst[len(dst)-2] == '.'
		dst = append(dst, word...)
		if capital {
			dst[len(dst)-len(word)] -= 'a' - 'A'
		}
		if i%12 == 11 {
			dst = append(dst, '.')
		}
	}
	return dst
}

// appendLines appends count lines of random text, with no newline after the last.
func appendLines(dst []byte, random *rand.Rand, count int) []byte {
	for i := range count {
		if i > 0 {
			dst = append(dst, '\n')
		}
		dst = appendText(dst, random, 16)
	}
	return dst
}

// escape appends text with its newlines escaped for JSON.
func escape(dst, text []byte) []byte {
	return append(dst, bytes.ReplaceAll(text, []byte("\n"), []byte(`\n`))...)
}
