package awsauth

import (
	"crypto/sha256"
	"strings"
)

// Roles are the roles that a text of mapRoles maps, to anything. Nil are those of no text.
type Roles struct {
	of    [sha256.Size]byte   // the text
	names map[string]struct{} // as the authenticator compares them, in lower case
	err   error
}

// maxRole is the maximum length of the ARN of a role in bytes.
const maxRole = 2048

// ParseRoles parses the text of mapRoles.
func ParseRoles(text string) *Roles {
	r := &Roles{of: sha256.Sum256([]byte(text)), names: map[string]struct{}{}}
	list, err := parseRoles(text)
	if err != nil || list == nil {
		r.err = err
		return r
	}
	for _, item := range list.Content {
		if role := mappedRole(item); role != "" && len(role) <= maxRole {
			r.names[strings.ToLower(role)] = struct{}{}
		}
	}
	return r
}

// IsOf reports whether they are the roles of a text.
func (r *Roles) IsOf(text string) bool {
	if r == nil {
		return text == ""
	}
	return r.of == sha256.Sum256([]byte(text))
}

// Has reports whether a role is one of them. The error says what is wrong with the text.
func (r *Roles) Has(role string) (bool, error) {
	if r == nil {
		return false, nil
	}
	_, has := r.names[strings.ToLower(role)]
	return has, r.err
}
