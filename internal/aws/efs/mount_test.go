package efs_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	efsservice "github.com/coracle-eks/coracle/internal/aws/efs"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/filesystem"
)

// sign returns the query with which efs-utils identifies a client.
func sign(t *testing.T, fileSystem string, with aws.Credentials, at time.Time) string {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "https://"+fileSystem+
		"/?Action=Connect&PublicKeyHash=abc%3D&X-Amz-Expires=86400", nil)
	if err != nil {
		t.Fatal(err)
	}
	empty := sha256.Sum256(nil)
	uri, _, err := v4.NewSigner().PresignHTTP(t.Context(), with, r, hex.EncodeToString(empty[:]), "elasticfilesystem",
		region, at)
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(uri, "?")
	return query
}

// granted describes what a client may do; the code of the refusal, if it may not mount.
func granted(t *testing.T, w *fixture, r filesystem.MountRequest) string {
	t.Helper()
	r.Account, r.Region = account, region
	g, err := w.service.AuthorizeMount(t.Context(), r)
	var refused *filesystem.RefusedError
	if errors.As(err, &refused) {
		return refused.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	if (g.AccessPoint != nil) != (r.AccessPointID != "") || g.FileSystem.ID != r.FileSystemID {
		t.Errorf("the grant is %+v", g)
	}
	text := "read"
	if !g.ReadOnly {
		text += " write"
	}
	if !g.SquashRoot {
		text += " root"
	}
	return text
}

func TestMountsAreAuthorized(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	id := w.fileSystem()
	m := w.mountTarget(id, "a")
	point, other := w.accessPoint(id), w.accessPoint(w.fileSystem())
	reader := w.NewUser(t, "reader", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
		"Action":"elasticfilesystem:ClientMount","Resource":"*"}]}`)
	denied := w.NewUser(t, "denied", `{"Version":"2012-10-17","Statement":[{"Effect":"Deny",
		"Action":"elasticfilesystem:ClientRootAccess","Resource":"*"}]}`)
	nobody := w.NewUser(t, "nobody", "")
	now := time.Now()
	request := func(edit func(*filesystem.MountRequest)) filesystem.MountRequest {
		r := filesystem.MountRequest{FileSystemID: id, MountTargetID: *m.MountTargetId}
		if edit != nil {
			edit(&r)
		}
		return r
	}
	plain := request(nil)
	secure := request(func(r *filesystem.MountRequest) { r.TLS = true })
	by := func(with aws.Credentials) filesystem.MountRequest {
		return request(func(r *filesystem.MountRequest) { r.TLS, r.Signed = true, sign(t, id, with, now) })
	}
	through := request(func(r *filesystem.MountRequest) { r.TLS, r.AccessPointID = true, *point.AccessPointId })

	const all = "read write root"
	check := func(when string, want map[string]filesystem.MountRequest) {
		t.Helper()
		for name, r := range want {
			what, result, _ := strings.Cut(name, ": ")
			if got := granted(t, w, r); got != result {
				t.Errorf("%s, %s: got %q, want %q", when, what, got, result)
			}
		}
	}
	check("without a policy", map[string]filesystem.MountRequest{
		"anonymous: " + all: plain, "with tls: " + all: secure, "through an access point: " + all: through,
		"as a user without permissions: " + all: by(nobody), "as a user who is denied root: read write": by(denied),
		"an access point without tls: AccessDenied": request(func(r *filesystem.MountRequest) {
			r.AccessPointID = *point.AccessPointId
		}),
		"iam without tls: AccessDenied": request(func(r *filesystem.MountRequest) { r.Signed = sign(t, id, reader, now) }),
		"an access point of another file system: AccessPointNotFound": request(func(r *filesystem.MountRequest) {
			r.TLS, r.AccessPointID = true, *other.AccessPointId
		}),
		"no file system: FileSystemNotFound": request(func(r *filesystem.MountRequest) {
			r.FileSystemID = "fs-0123456789abcdef0"
		}),
		"no mount target: MountTargetNotFound": request(func(r *filesystem.MountRequest) { r.MountTargetID = "fsmt-1" }),
		"a signature for another file system: InvalidSignatureException": request(func(r *filesystem.MountRequest) {
			r.TLS, r.Signed = true, sign(t, "fs-0123456789abcdef0", reader, now)
		}),
		"a signature of a day ago: InvalidSignatureException": request(func(r *filesystem.MountRequest) {
			r.TLS, r.Signed = true, sign(t, id, reader, now.Add(-25*time.Hour))
		}),
		"a signature of an hour ago: InvalidSignatureException": request(func(r *filesystem.MountRequest) {
			r.TLS, r.Signed = true, sign(t, id, reader, now.Add(-time.Hour))
		}),
		"an unknown key: UnrecognizedClientException": by(aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "x"}),
		"no signature: MissingAuthenticationTokenException": request(func(r *filesystem.MountRequest) {
			r.TLS, r.Signed = true, "Action=Connect"
		}),
	})

	put := func(policy string) {
		t.Helper()
		awstest.Must[*efs.PutFileSystemPolicyOutput](t)(w.PutFileSystemPolicy(ctx, &efs.PutFileSystemPolicyInput{
			FileSystemId: &id, Policy: &policy, BypassPolicyLockoutSafetyCheck: true}))
	}
	put(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"*"},"Action":[
		"elasticfilesystem:ClientMount","elasticfilesystem:ClientWrite"],"Condition":{"Bool":{
		"aws:SecureTransport":"true","elasticfilesystem:AccessedViaMountTarget":"true"}}}]}`)
	stored := awstest.Must[*efs.DescribeFileSystemPolicyOutput](t)(w.DescribeFileSystemPolicy(ctx,
		&efs.DescribeFileSystemPolicyInput{FileSystemId: &id}))
	if !strings.Contains(*stored.Policy, `"Resource":"arn:aws:elasticfilesystem:`) {
		t.Errorf("the policy is %s", *stored.Policy)
	}
	check("with a policy that wants tls", map[string]filesystem.MountRequest{
		"anonymous: AccessDenied": plain, "with tls: read write": secure, "as a user: read write": by(nobody),
	})
	put(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"*"},
		"Action":"elasticfilesystem:Client*","Condition":{"StringEquals":{"elasticfilesystem:AccessPointArn":"` + *point.AccessPointArn + `"}}}]}`)
	check("with a policy for an access point", map[string]filesystem.MountRequest{
		"with tls: AccessDenied": secure, "through the access point: " + all: through,
		"as a user whose own policies let: read": by(reader), "as another: AccessDenied": by(nobody),
	})
	put(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account +
		`:user/nobody"},"Action":["elasticfilesystem:ClientMount","elasticfilesystem:ClientRootAccess"]}]}`)
	check("with a policy for a user", map[string]filesystem.MountRequest{
		"anonymous: AccessDenied": secure, "as the user: read root": by(nobody), "as another: read": by(reader),
	})
	awstest.Must[*efs.DeleteFileSystemPolicyOutput](t)(w.DeleteFileSystemPolicy(ctx,
		&efs.DeleteFileSystemPolicyInput{FileSystemId: &id}))
	check("when the policy has gone", map[string]filesystem.MountRequest{"anonymous: " + all: plain})

	awstest.Must[*efs.DeleteMountTargetOutput](t)(w.DeleteMountTarget(ctx,
		&efs.DeleteMountTargetInput{MountTargetId: m.MountTargetId}))
	w.gone(*m.MountTargetId)
	check("when the mount target has gone", map[string]filesystem.MountRequest{"anonymous: MountTargetNotFound": plain})
}

func TestAMountNeedsTheKey(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	key := awstest.Must[*kms.CreateKeyOutput](t)(w.kms().CreateKey(t.Context(), &kms.CreateKeyInput{})).KeyMetadata
	id := w.fileSystem(func(in *efs.CreateFileSystemInput) { in.Encrypted, in.KmsKeyId = aws.Bool(true), key.KeyId })
	r := filesystem.MountRequest{FileSystemID: id, MountTargetID: *w.mountTarget(id, "a").MountTargetId}
	if got := granted(t, w, r); got != "read write root" {
		t.Errorf("got %q", got)
	}
	awstest.Must[*kms.DisableKeyOutput](t)(w.kms().DisableKey(t.Context(), &kms.DisableKeyInput{KeyId: key.KeyId}))
	if got := granted(t, w, r); got != "AccessDenied" {
		t.Errorf("with a disabled key: got %q", got)
	}
}

// Each operation asks for AWS's permissions, on the resource and with the condition keys that AWS has.
func TestPermissions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	id := w.fileSystem(func(in *efs.CreateFileSystemInput) {
		in.Tags = []types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}
	})
	mine := w.NewUser(t, "mine", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"elasticfilesystem:*",
		"Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"a"}}}]}`)
	encrypted := w.NewUser(t, "encrypted", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
		"Action":["elasticfilesystem:CreateFileSystem","kms:*"],"Resource":"*",
		"Condition":{"Bool":{"elasticfilesystem:Encrypted":"true"}}}]}`)
	driver := w.NewUser(t, "driver", "")
	w.attach(t, "driver", "arn:aws:iam::aws:policy/service-role/AmazonEFSCSIDriverPolicy")
	full := w.NewUser(t, "full", "")
	w.attach(t, "full", "arn:aws:iam::aws:policy/AmazonElasticFileSystemFullAccess")
	reader := w.NewUser(t, "reader", "")
	w.attach(t, "reader", "arn:aws:iam::aws:policy/AmazonElasticFileSystemReadOnlyAccess")
	cluster := []types.Tag{{Key: aws.String("efs.csi.aws.com/cluster"), Value: aws.String("true")}}
	subnet := w.subnet("c")

	for name, c := range map[string]struct {
		who  aws.Credentials
		call func(*efs.Client) error
		want string // code
	}{
		"describe what has the tag": {mine, func(c *efs.Client) error {
			return failed(c.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &id}))
		}, ""},
		"describe all": {mine, func(c *efs.Client) error {
			return failed(c.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{}))
		}, "AccessDeniedException"},
		"describe what is not there": {mine, func(c *efs.Client) error {
			return failed(c.DescribeFileSystems(ctx,
				&efs.DescribeFileSystemsInput{FileSystemId: aws.String("fs-0123456789abcdef0")}))
		}, "AccessDeniedException"},
		"a mount target without a permission of EC2": {mine, func(c *efs.Client) error {
			return failed(c.CreateMountTarget(ctx, &efs.CreateMountTargetInput{FileSystemId: &id, SubnetId: &subnet}))
		}, "AccessDeniedException"},
		"a mount target with full access": {full, func(c *efs.Client) error {
			return failed(c.CreateMountTarget(ctx, &efs.CreateMountTargetInput{FileSystemId: &id, SubnetId: &subnet}))
		}, ""},
		"create an encrypted file system": {encrypted, func(c *efs.Client) error {
			return failed(c.CreateFileSystem(ctx, &efs.CreateFileSystemInput{Encrypted: aws.Bool(true)}))
		}, ""},
		"create one that is not encrypted": {encrypted, func(c *efs.Client) error {
			return failed(c.CreateFileSystem(ctx, &efs.CreateFileSystemInput{}))
		}, "AccessDeniedException"},
		"create one with tags": {encrypted, func(c *efs.Client) error {
			return failed(c.CreateFileSystem(ctx, &efs.CreateFileSystemInput{Encrypted: aws.Bool(true), Tags: cluster}))
		}, "AccessDeniedException"},
		"an access point of the driver": {driver, func(c *efs.Client) error {
			out, err := c.CreateAccessPoint(ctx, &efs.CreateAccessPointInput{FileSystemId: &id, Tags: cluster})
			if err == nil {
				err = failed(c.DeleteAccessPoint(ctx, &efs.DeleteAccessPointInput{AccessPointId: out.AccessPointId}))
			}
			return err
		}, ""},
		"an access point without the driver's tag": {driver, func(c *efs.Client) error {
			return failed(c.CreateAccessPoint(ctx, &efs.CreateAccessPointInput{FileSystemId: &id}))
		}, "AccessDeniedException"},
		"read with read-only access": {reader, func(c *efs.Client) error {
			return failed(c.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{FileSystemId: &id}))
		}, ""},
		"delete with read-only access": {reader, func(c *efs.Client) error {
			return failed(c.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: &id}))
		}, "AccessDeniedException"},
	} {
		code, message, _ := awstest.Failure(c.call(w.efs(c.who)))
		if code != c.want {
			t.Errorf("%s: got %q (%s), want %q", name, code, message, c.want)
		}
	}
}

// The policy of a file system lets another account in, and nobody else does.
func TestAnotherAccount(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	const other = "444455556666"
	root := w.NewAccount(t, other)
	id := w.fileSystem()
	arn := *w.describe(id).FileSystemArn
	describe := func(name string) error {
		return failed(w.efs(root).DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{FileSystemId: &name}))
	}
	awstest.WantCode(t, describe(id), "FileSystemNotFound") // of its own account
	awstest.WantCode(t, describe(arn), "AccessDeniedException")
	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"` + other + `"},
		"Action":"elasticfilesystem:DescribeMountTargets","Resource":"` + arn + `"}]}`
	awstest.Must[*efs.PutFileSystemPolicyOutput](t)(w.PutFileSystemPolicy(ctx, &efs.PutFileSystemPolicyInput{
		FileSystemId: &id, Policy: &policy}))
	if err := describe(arn); err != nil {
		t.Error(err)
	}
}

// contexts is an Identity that keeps the contexts in which it decides.
type contexts struct {
	efsservice.Identity
	all []context.Context
}

func (c *contexts) AuthorizeAnonymous(ctx context.Context, t wire.Target) error {
	c.all = append(c.all, ctx)
	return c.Identity.AuthorizeAnonymous(ctx, t)
}

// The decisions about a mount have the budget of one request: what the first takes, the others lack.
func TestDecisionsAboutAMountShareABudget(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id := w.fileSystem()
	m := w.mountTarget(id, "a")
	identity := &contexts{Identity: w.Identity}
	service := efsservice.New(efsservice.Options{Store: w.Store, Identity: identity})
	if _, err := service.AuthorizeMount(t.Context(), filesystem.MountRequest{Account: account, Region: region,
		FileSystemID: id, MountTargetID: *m.MountTargetId}); err != nil {
		t.Fatal(err)
	}
	if len(identity.all) != 3 {
		t.Fatalf("%d decisions were made", len(identity.all))
	}
	first, last := identity.all[0], identity.all[2]
	target := wire.Target{Action: "elasticfilesystem:ClientMount", Resource: "arn:aws:elasticfilesystem:::file-system/x",
		Policy: `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}}`}
	if err := w.Identity.AuthorizeAnonymous(last, target); err != nil {
		t.Errorf("a decision that takes little: %v", err)
	}
	long := target
	long.Policy = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*",
		"Condition":{"StringLike":{"elasticfilesystem:AccessPointArn":["` + strings.Repeat(`*b*","`, 2000) + `*c"]}}}}`
	long.Conditions = map[string][]string{"elasticfilesystem:AccessPointArn": {strings.Repeat("a", 2000)}}
	var denied *wire.Denied
	for n := 0; ; n++ {
		if err := w.Identity.AuthorizeAnonymous(first, long); !errors.As(err, &denied) {
			t.Fatal(err)
		}
		if strings.Contains(denied.Reason, "too much work") { // the budget is spent
			break
		}
		if n > 1000 {
			t.Fatalf("after %d decisions: %v", n, denied)
		}
	}
	if err := w.Identity.AuthorizeAnonymous(last, target); !errors.As(err, &denied) {
		t.Errorf("with the budget that the first has spent: %v", err)
	}
	if err := w.Identity.AuthorizeAnonymous(t.Context(), target); err != nil {
		t.Errorf("another request: %v", err)
	}
}
