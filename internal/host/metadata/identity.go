package metadata

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/smallstep/pkcs7"

	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
)

// document returns the instance identity document, byte for byte as it is signed.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-identity-documents.html
func document(i record.Instance, privateIP string) ([]byte, error) {
	kind, _ := instancetype.Get(string(i.InstanceType))
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(struct {
		AccountID               string    `json:"accountId"`
		Architecture            string    `json:"architecture"`
		AvailabilityZone        string    `json:"availabilityZone"`
		BillingProducts         []string  `json:"billingProducts"`
		DevpayProductCodes      []string  `json:"devpayProductCodes"`
		MarketplaceProductCodes []string  `json:"marketplaceProductCodes"`
		ImageID                 string    `json:"imageId"`
		InstanceID              string    `json:"instanceId"`
		InstanceType            string    `json:"instanceType"`
		KernelID                *string   `json:"kernelId"`
		PendingTime             time.Time `json:"pendingTime"`
		PrivateIP               string    `json:"privateIp"`
		RamdiskID               *string   `json:"ramdiskId"`
		Region                  string    `json:"region"`
		Version                 string    `json:"version"`
	}{
		AccountID: i.Account, Architecture: kind.Architecture, AvailabilityZone: i.AvailabilityZone, ImageID: i.ImageID,
		InstanceID: i.ID, InstanceType: string(i.InstanceType),
		PendingTime: i.LaunchTime.UTC().Truncate(time.Second), PrivateIP: privateIP, Region: i.Region,
		Version: "2017-09-30",
	})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// signature returns the base64-encoded signature of a document.
func (s *secret) signature(document []byte) ([]byte, error) {
	key, _, err := s.documentSigner()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(document)
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	return wrapBase64(signature), err
}

// signPKCS7 returns a document with its signature as a base64-encoded PKCS #7 message.
func (s *secret) signPKCS7(document []byte) ([]byte, error) {
	key, certificate, err := s.documentSigner()
	if err != nil {
		return nil, err
	}
	message, err := pkcs7.NewSignedData(document)
	if err != nil {
		return nil, err
	}
	message.SetDigestAlgorithm(pkcs7.OIDDigestAlgorithmSHA256)
	if err := message.AddSigner(certificate, key, pkcs7.SignerInfoConfig{}); err != nil {
		return nil, err
	}
	der, err := message.Finish()
	return wrapBase64(der), err
}

// wrapBase64 encodes b in base64, in lines of 64 characters as EC2 does.
func wrapBase64(b []byte) []byte {
	text := base64.StdEncoding.EncodeToString(b)
	var lines []byte
	for len(text) > 64 {
		lines = append(append(lines, text[:64]...), '\n')
		text = text[64:]
	}
	return append(lines, text...)
}
