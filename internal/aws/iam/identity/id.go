package identity

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"strconv"
)

// The prefixes of unique ids.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-prefixes
const (
	UserID            = "AIDA"
	GroupID           = "AGPA"
	RoleID            = "AROA"
	PolicyID          = "ANPA"
	InstanceProfileID = "AIPA"
	LongTermKey       = "AKIA"
	TemporaryKey      = "ASIA"
)

// NewID returns a unique id with that prefix, 21 characters.
func NewID(prefix string) string {
	var b [11]byte
	rand.Read(b[:]) // never fails
	return prefix + base32.StdEncoding.EncodeToString(b[:])[:17]
}

// NewAccessKey returns an access key id with that prefix and a secret. As on AWS the id tells its account (AccountOf).
func NewAccessKey(prefix, account string) (id, secret string) {
	var b [10]byte
	rand.Read(b[:])
	n, err := strconv.ParseUint(account, 10, 64)
	if err != nil {
		panic("identity: the account " + account + " is not a number") // accounts are checked where they are made
	}
	// 48 bits: one that is set in keys made since 2019, 40 of the account, 7 random.
	v := 1<<47 | n<<7 | uint64(b[5]&0x7f)
	for i := range 6 {
		b[i] = byte(v >> (8 * (5 - i)))
	}
	var s [30]byte
	rand.Read(s[:])
	return prefix + base32.StdEncoding.EncodeToString(b[:]), base64.StdEncoding.EncodeToString(s[:])
}

// AccountOf returns the account to which an access key id belongs; false for what is not such an id.
func AccountOf(id string) (account string, ok bool) {
	if len(id) != 20 || id[:4] != LongTermKey && id[:4] != TemporaryKey {
		return "", false
	}
	b, err := base32.StdEncoding.DecodeString(id[4:])
	if err != nil || len(b) < 6 { // the decoder passes over line ends
		return "", false
	}
	var v uint64
	for i := range 6 {
		v = v<<8 | uint64(b[i])
	}
	n := v >> 7 & (1<<40 - 1)
	if n >= 1e12 {
		return "", false
	}
	text := strconv.FormatUint(n, 10)
	const zeros = "000000000000"
	return zeros[:12-len(text)] + text, true
}
