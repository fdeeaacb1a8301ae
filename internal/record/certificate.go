package record

import (
	"time"

	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Certificate is a certificate of AWS Certificate Manager. The certificate itself and its private key are in a row of
// its own ([CertificateMaterial]), which is written in the same transactions.
//
// Writer: internal/aws/acm.
type Certificate struct {
	Account   string
	Region    string
	ID        string // a UUID
	CreatedAt time.Time
	Type      acmtypes.CertificateType   // IMPORTED or AMAZON_ISSUED
	Status    acmtypes.CertificateStatus // PENDING_VALIDATION or ISSUED; EXPIRED follows from NotAfter
	Tags      map[string]string          `json:",omitempty"`

	DomainName string // the first of the names
	// SubjectAlternativeNames are all names, with DomainName.
	SubjectAlternativeNames []string `json:",omitempty"`
	KeyAlgorithm            acmtypes.KeyAlgorithm
	KeyUsages               []acmtypes.KeyUsageName         `json:",omitempty"`
	ExtendedKeyUsages       []acmtypes.ExtendedKeyUsageName `json:",omitempty"`
	// NotBefore and NotAfter are those of the certificate; zero while it is PENDING_VALIDATION.
	NotBefore time.Time `json:",omitzero"`
	NotAfter  time.Time `json:",omitzero"`
	// ImportedAt is the time of the last import. IssuedAt is that of the first certificate, RenewedAt that of its last
	// successor.
	ImportedAt time.Time `json:",omitzero"`
	IssuedAt   time.Time `json:",omitzero"`
	RenewedAt  time.Time `json:",omitzero"`

	// Request is what a certificate was requested with; nil for imported ones.
	Request *CertificateRequest `json:",omitempty"`
}

// CertificateRequest is what only an AMAZON_ISSUED certificate has.
type CertificateRequest struct {
	ValidationMethod acmtypes.ValidationMethod
	// ValidationDomains are the domains that validation emails go to, by name, where they are not the name itself.
	ValidationDomains map[string]string `json:",omitempty"`
	// TransparencyLogging is the preference of the owner; nothing is logged.
	TransparencyLogging acmtypes.CertificateTransparencyLoggingPreference
	// Token is the IdempotencyToken of the request, and Fingerprint identifies what else it said.
	Token       string `json:",omitempty"`
	Fingerprint string `json:",omitempty"`
	// RenewAt is when RenewCertificate asked for a new certificate that has not been issued yet.
	RenewAt time.Time `json:",omitzero"`
}

// CertificateKey returns the row key of a certificate and of its material.
func CertificateKey(account, region, id string) string { return store.Key(account, region, id) }

// Key returns the certificate's row key.
func (c Certificate) Key() string { return CertificateKey(c.Account, c.Region, c.ID) }

// CertificateARN returns the Amazon Resource Name of a certificate.
func CertificateARN(account, region, id string) string {
	return "arn:aws:acm:" + region + ":" + account + ":certificate/" + id
}

// ARN returns the certificate's Amazon Resource Name.
func (c Certificate) ARN() string { return CertificateARN(c.Account, c.Region, c.ID) }

// Certificates returns the table of certificates, by CertificateKey.
func Certificates(s *store.Store) store.Table[Certificate] {
	return store.NewTable[Certificate](s, "certificates")
}

// MaxCertificateMaterial is the maximum size of a [CertificateMaterial], in bytes. Each listener that has the
// certificate has a copy of it in every zone.
const MaxCertificateMaterial = 24 << 10

// CertificateMaterial is what a server presents and signs with: a certificate, those of its issuers, and its private
// key, which belong together. A renewal or another import replaces all of it. There is none while a certificate is
// PENDING_VALIDATION. The private key leaves the daemon for the listeners of load balancers only.
//
// Writer: internal/aws/acm.
type CertificateMaterial struct {
	Certificate []byte // PEM, one certificate
	Chain       []byte `json:",omitempty"` // PEM, from the issuer of Certificate on; empty for one without issuers
	PrivateKey  []byte // PEM, not encrypted
}

// CertificateMaterials returns the table of material, by CertificateKey.
func CertificateMaterials(s *store.Store) store.Table[CertificateMaterial] {
	return store.NewTable[CertificateMaterial](s, "certificatematerials")
}

// CertificateConfiguration is the configuration of AWS Certificate Manager of an account. No record: the defaults.
//
// Writer: internal/aws/acm.
type CertificateConfiguration struct {
	// DaysBeforeExpiry is how many days before a certificate expires events begin.
	DaysBeforeExpiry int32
}

// CertificateConfigurations returns the table of configurations, by Key(account, region).
func CertificateConfigurations(s *store.Store) store.Table[CertificateConfiguration] {
	return store.NewTable[CertificateConfiguration](s, "certificateconfigurations")
}

// CertificateUse has no facts of its own; its revision in the store is the fact. Each transaction that gives a
// certificate to a listener of a load balancer writes it. A transaction that deletes the certificate requires it as it
// was before the listeners were looked through, and deletes it. No record: no listener has ever had the certificate.
//
// Writers: internal/aws/elb, and internal/aws/acm, which only deletes it.
type CertificateUse struct{}

// CertificateUses returns the table of uses, by CertificateKey.
func CertificateUses(s *store.Store) store.Table[CertificateUse] {
	return store.NewTable[CertificateUse](s, "certificateuses")
}
