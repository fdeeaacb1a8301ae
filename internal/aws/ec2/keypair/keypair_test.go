package keypair_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/crypto/ssh"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
)

func TestKeyPairs(t *testing.T) {
	t.Parallel()
	w := ec2test.New(t)
	ctx := w.Context()
	for _, kind := range []types.KeyType{types.KeyTypeRsa, types.KeyTypeEd25519} {
		name := "my-" + string(kind)
		made := awstest.Must[*ec2.CreateKeyPairOutput](t)(w.CreateKeyPair(ctx, &ec2.CreateKeyPairInput{KeyName: &name,
			KeyType: kind}))
		ec2test.WantID(t, made.KeyPairId, "key-")
		private, err := ssh.ParseRawPrivateKey([]byte(*made.KeyMaterial))
		if err != nil {
			t.Fatalf("the private half of %s: %v", name, err)
		}
		var fingerprint string
		switch key := private.(type) {
		case *rsa.PrivateKey:
			der, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			digest := sha1.Sum(der)
			fingerprint = strings.ReplaceAll(fmt.Sprintf("% x", digest), " ", ":")
		case *ed25519.PrivateKey:
			public, err := ssh.NewPublicKey(key.Public())
			if err != nil {
				t.Fatal(err)
			}
			digest := sha256.Sum256(public.Marshal())
			fingerprint = base64.StdEncoding.EncodeToString(digest[:])
		}
		if *made.KeyFingerprint != fingerprint {
			t.Errorf("fingerprint of %s is %s, want %s", name, *made.KeyFingerprint, fingerprint)
		}
		signer, err := ssh.NewSignerFromKey(private)
		if err != nil {
			t.Fatal(err)
		}
		found := awstest.Must[*ec2.DescribeKeyPairsOutput](t)(w.DescribeKeyPairs(ctx,
			&ec2.DescribeKeyPairsInput{KeyNames: []string{name}, IncludePublicKey: aws.Bool(true)})).KeyPairs
		if want := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))); len(found) != 1 ||
			*found[0].PublicKey != want || found[0].KeyType != kind {
			t.Errorf("described %+v, want the public key %s", found, want)
		}
	}
	if strings.Contains(w.Dump(), "PRIVATE") {
		t.Error("a private key is in the store")
	}

	awstest.Must[*ec2.DeleteKeyPairOutput](t)(w.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyName: aws.String("my-rsa")}))
	// again: no error
	awstest.Must[*ec2.DeleteKeyPairOutput](t)(w.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyName: aws.String("my-rsa")}))
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	imported := awstest.Must[*ec2.ImportKeyPairOutput](t)(w.ImportKeyPair(ctx,
		&ec2.ImportKeyPairInput{KeyName: aws.String("my-rsa"), PublicKeyMaterial: ssh.MarshalAuthorizedKey(own)}))
	found := awstest.Must[*ec2.DescribeKeyPairsOutput](t)(w.DescribeKeyPairs(
		ctx,
		&ec2.DescribeKeyPairsInput{
			Filters: []types.Filter{ec2test.Filter("fingerprint", *imported.KeyFingerprint)},
		},
	)).KeyPairs
	if len(found) != 1 || found[0].PublicKey != nil || found[0].KeyType != types.KeyTypeEd25519 {
		t.Errorf("imported %+v", found)
	}
}
