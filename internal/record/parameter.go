package record

import (
	"fmt"
	"strings"
	"time"

	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Parameter is a parameter of an account in Systems Manager's Parameter Store. The public parameters of AWS have no
// rows.
//
// Writer: internal/aws/ssm.
type Parameter struct {
	Account string
	Region  string
	Name    string // "/team/db/url"
	Type    ssmtypes.ParameterType
	Latest  int64 // version, from 1
	// Labels are labels and the versions that they are on.
	Labels map[string]int64  `json:",omitempty"`
	Tags   map[string]string `json:",omitempty"`
}

// ARN returns the parameter's Amazon Resource Name.
func (p Parameter) ARN() string { return ParameterARN(p.Account, p.Region, p.Name) }

// ParameterARN returns the Amazon Resource Name of a parameter; of a public one account is empty.
func ParameterARN(account, region, name string) string {
	return "arn:aws:ssm:" + region + ":" + account + ":parameter/" + strings.TrimPrefix(name, "/")
}

// ParameterKey returns the key of a parameter.
func ParameterKey(account, region, name string) string { return store.Key(account, region, name) }

// Parameters returns the table of parameters, by ParameterKey.
func Parameters(s *store.Store) store.Table[Parameter] {
	return store.NewTable[Parameter](s, "parameters")
}

// ParameterVersion is one version of a parameter.
//
// Writer: internal/aws/ssm.
type ParameterVersion struct {
	Version int64
	// Value is the value, or for a SecureString its ciphertext in Base64.
	Value string
	// KeyID names the KMS key of a SecureString, as whoever put it did. DataKey, encrypted with it, encrypts an Advanced
	// parameter; a Standard one is encrypted with the KMS key.
	KeyID   string `json:",omitempty"`
	DataKey []byte `json:",omitempty"`

	Description    string `json:",omitempty"`
	AllowedPattern string `json:",omitempty"`
	DataType       string // "text"
	Tier           ssmtypes.ParameterTier
	ModifiedAt     time.Time
	ModifiedBy     string // the ARN of whoever put it
}

// ParameterVersionKey returns the key of a version; those of a parameter are in order.
func ParameterVersionKey(account, region, name string, version int64) string {
	return store.Key(account, region, name, fmt.Sprintf("%019d", version))
}

// ParameterVersions returns the table of versions, by ParameterVersionKey.
func ParameterVersions(s *store.Store) store.Table[ParameterVersion] {
	return store.NewTable[ParameterVersion](s, "parameterversions")
}
