// Package managed holds the policies that AWS manages and that users of EKS attach: AmazonEKSClusterPolicy and its
// like, under their ARNs (arn:aws:iam::aws:policy/...), and those of the service-linked roles.
//
// Each is a file under documents/, at the path that its ARN has. The documents are Coracle's own, written by what each
// policy is for; they are not AWS's text. They name the services that Coracle and its clusters know, so that a
// statement, its Sid, or an action of some other service may differ from what AWS returns for the same ARN. All are
// version v1, of one date. AWS's documents are at
// https://docs.aws.amazon.com/aws-managed-policy/latest/reference/policy-list.html.
package managed

import (
	"crypto/sha256"
	"embed"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
)

//go:embed documents
var files embed.FS

// Policy is an AWS managed policy.
type Policy struct {
	ARN         string
	Name        string
	Path        string // "/", "/service-role/", "/aws-service-role/"
	ID          string // ANPA..., the same on every machine
	Description string
	VersionID   string // the only version
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Document    string // as GetPolicyVersion returns it

	compiled func() *policy.Document
}

// Compiled returns the document, ready to evaluate.
func (p *Policy) Compiled() *policy.Document { return p.compiled() }

// Get returns the policy with that ARN; false when AWS or Coracle has none.
func Get(arn string) (*Policy, bool) {
	p, ok := load().byARN[arn]
	return p, ok
}

// All lists the policies by name.
func All() []*Policy { return load().all }

// written is the date of the documents.
var written = time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC)

type catalog struct {
	byARN map[string]*Policy
	all   []*Policy
}

// load reads the embedded files. A file that cannot be read is a mistake of the build, which the package's test finds.
var load = sync.OnceValue(func() catalog {
	c := catalog{byARN: map[string]*Policy{}}
	err := fs.WalkDir(files, "documents", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		p, err := readPolicy(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c.byARN[p.ARN] = p
		c.all = append(c.all, p)
		return nil
	})
	if err != nil {
		panic("managed policies: " + err.Error())
	}
	slices.SortFunc(c.all, func(a, b *Policy) int { return strings.Compare(a.Name, b.Name) })
	return c
})

func readPolicy(path string) (*Policy, error) {
	text, err := files.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Description string
		Document    json.RawMessage
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(strings.TrimPrefix(path, "documents/"), ".json")
	p := &Policy{
		ARN: "arn:aws:iam::aws:policy/" + name, Path: "/", Name: name,
		Description: file.Description, VersionID: "v1", CreatedAt: written, UpdatedAt: written,
		Document: string(file.Document),
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		p.Path, p.Name = "/"+name[:i+1], name[i+1:]
	}
	id := sha256.Sum256([]byte(p.ARN))
	p.ID = "ANPA" + base32.StdEncoding.EncodeToString(id[:])[:17]
	p.compiled = sync.OnceValue(func() *policy.Document {
		d, err := policy.Parse(policy.Identity, p.Document)
		if err != nil {
			panic("managed policy " + p.Name + ": " + err.Error())
		}
		return d
	})
	return p, nil
}
