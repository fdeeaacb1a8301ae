package ec2_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracle "github.com/coracle-eks/coracle/internal/aws/ec2"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	coraclekms "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// keyFixture is EC2 and KMS behind the real wire and the real IAM.
type keyFixture struct {
	*iamtest.AWS
	t *testing.T
}

func newKeyFixture(t *testing.T) *keyFixture {
	t.Helper()
	f := &keyFixture{AWS: iamtest.New(t), t: t}
	keys := coraclekms.New(coraclekms.Options{Store: f.Store})
	keys.Register(f.Mux)
	coracle.New(coracle.Options{Store: f.Store, Keys: keys}).Register(f.Mux)
	return f
}

func (f *keyFixture) ec2(who aws.Credentials) *ec2.Client {
	return ec2.New(ec2.Options{Region: iamtest.Region, BaseEndpoint: &f.URL, RetryMaxAttempts: 1,
		HTTPClient: awsclient.HTTP(), Credentials: credentials.StaticCredentialsProvider{Value: who}})
}

func (f *keyFixture) kms(who aws.Credentials) *kms.Client {
	return kms.New(kms.Options{Region: iamtest.Region, BaseEndpoint: &f.URL, RetryMaxAttempts: 1,
		HTTPClient: awsclient.HTTP(), Credentials: credentials.StaticCredentialsProvider{Value: who}})
}

// key creates a key of the root user's.
func (f *keyFixture) key() string {
	f.t.Helper()
	return *awstest.Must[*kms.CreateKeyOutput](f.t)(f.kms(f.Root).CreateKey(f.t.Context(),
		&kms.CreateKeyInput{})).KeyMetadata.Arn
}

// user returns a client of a user who may do everything with EC2, and some actions on keys.
func (f *keyFixture) user(name string, keys map[string][]string) *ec2.Client {
	statements := []string{`{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`}
	for key, actions := range keys {
		statements = append(statements, fmt.Sprintf(`{"Effect":"Allow","Action":["kms:%s"],"Resource":"%s"}`,
			strings.Join(actions, `","kms:`), key))
	}
	return f.ec2(f.NewUser(f.t, name, `{"Version":"2012-10-17","Statement":[`+strings.Join(statements, ",")+`]}`))
}

// observe gives volumes their disks and snapshots their content.
func (f *keyFixture) observe(id string) {
	f.t.Helper()
	key := record.EC2Key(iamtest.Account, iamtest.Region, id)
	if strings.HasPrefix(id, "vol-") {
		awstest.Must[any](f.t)(record.VolumeDisks(f.Store).Put(f.t.Context(), key,
			record.VolumeDisk{VolumeID: id, Size: 10}))
		return
	}
	awstest.Must[any](f.t)(record.SnapshotDisks(f.Store).Put(f.t.Context(), key,
		record.SnapshotDisk{SnapshotID: id, Complete: true}))
}

// encrypted returns a volume under a key, and a snapshot of it.
func (f *keyFixture) encrypted(key string) (volume, snapshot string) {
	f.t.Helper()
	root := f.ec2(f.Root)
	volume = *awstest.Must[*ec2.CreateVolumeOutput](f.t)(root.CreateVolume(f.t.Context(), &ec2.CreateVolumeInput{
		AvailabilityZone: aws.String(iamtest.Region + "a"), Size: aws.Int32(10), Encrypted: aws.Bool(true),
		KmsKeyId: &key})).VolumeId
	f.observe(volume)
	snapshot = *awstest.Must[*ec2.CreateSnapshotOutput](f.t)(root.CreateSnapshot(f.t.Context(),
		&ec2.CreateSnapshotInput{VolumeId: &volume})).SnapshotId
	f.observe(snapshot)
	return volume, snapshot
}

var (
	makeActions = []string{"CreateGrant", "GenerateDataKeyWithoutPlaintext", "ReEncryptTo", "Decrypt"}
	readActions = []string{"Decrypt", "ReEncryptFrom"}
)

// TestKeysOfVolumes has users with permission for everything of EC2, and for some keys, make volumes of all ways.
func TestKeysOfVolumes(t *testing.T) {
	t.Parallel()
	f := newKeyFixture(t)
	source, own := f.key(), f.key()
	volume, snapshot := f.encrypted(source)
	image := imageOf(iamtest.Region, t, "x86_64")
	yes := aws.Bool(true)
	uses := map[string]func(c *ec2.Client, key *string) error{
		"CreateVolume": func(c *ec2.Client, key *string) error {
			return failed(c.CreateVolume(t.Context(), &ec2.CreateVolumeInput{SnapshotId: &snapshot, KmsKeyId: key,
				Encrypted: yes, AvailabilityZone: aws.String(iamtest.Region + "a")}))
		},
		"CopyVolumes": func(c *ec2.Client, key *string) error {
			return failed(c.CopyVolumes(t.Context(), &ec2.CopyVolumesInput{SourceVolumeId: &volume, KmsKeyId: key,
				Encrypted: yes}))
		},
		"CopySnapshot": func(c *ec2.Client, key *string) error {
			if key == nil {
				key = &source
			}
			return failed(c.CopySnapshot(t.Context(), &ec2.CopySnapshotInput{SourceSnapshotId: &snapshot, KmsKeyId: key,
				SourceRegion: aws.String(iamtest.Region)}))
		},
		"RunInstances": func(c *ec2.Client, key *string) error {
			return failed(c.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: &image, InstanceType: "m5.large",
				MinCount: aws.Int32(1), MaxCount: aws.Int32(1), BlockDeviceMappings: []types.BlockDeviceMapping{{
					DeviceName: aws.String("/dev/xvdf"),
					Ebs:        &types.EbsBlockDevice{SnapshotId: &snapshot, KmsKeyId: key, Encrypted: yes}}}}))
		},
		"RunInstances by a launch template": func(c *ec2.Client, key *string) error {
			template, err := c.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
				LaunchTemplateName: aws.String(fmt.Sprintf("t%p", &key)),
				LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: &image, InstanceType: "m5.large",
					BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{
						DeviceName: aws.String("/dev/xvdf"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{
							SnapshotId: &snapshot, KmsKeyId: key, Encrypted: yes}}}}})
			if err != nil {
				return err
			}
			return failed(c.RunInstances(t.Context(), &ec2.RunInstancesInput{MinCount: aws.Int32(1),
				MaxCount: aws.Int32(1), LaunchTemplate: &types.LaunchTemplateSpecification{
					LaunchTemplateId: template.LaunchTemplate.LaunchTemplateId}}))
		},
	}
	for name, row := range map[string]struct {
		keys    map[string][]string
		key     *string
		refused bool
	}{
		"no key":                          {nil, nil, true},
		"the key of the source to read":   {map[string][]string{source: readActions}, nil, true},
		"the key of the source":           {map[string][]string{source: append(readActions, makeActions...)}, nil, false},
		"its own key alone":               {map[string][]string{own: append(readActions, makeActions...)}, &own, true},
		"its own key and nothing of it":   {map[string][]string{source: append(readActions, makeActions...)}, &own, true},
		"both keys":                       {map[string][]string{source: readActions, own: makeActions}, &own, false},
		"the key of the source, no Grant": {map[string][]string{source: append(readActions, makeActions[1:]...)}, nil, true},
	} {
		user := f.user("user-"+strings.NewReplacer(" ", "-", ",", "").Replace(name), row.keys)
		for what, use := range uses {
			code := ""
			if row.refused {
				code = "UnauthorizedOperation"
			}
			wantRefusal(t, what+" with "+name, use(user, row.key), code)
		}
	}
}

// TestKeysInUse disables a key that a volume is encrypted with, and has others attach it.
func TestKeysInUse(t *testing.T) {
	t.Parallel()
	f := newKeyFixture(t)
	ctx, root := t.Context(), f.ec2(f.Root)
	key := f.key()
	volume, snapshot := f.encrypted(key)
	image := imageOf(iamtest.Region, t, "x86_64")
	instance := *awstest.Must[*ec2.RunInstancesOutput](t)(root.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: &image,
		InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		Placement: &types.Placement{AvailabilityZone: aws.String(iamtest.Region + "a")}})).Instances[0].InstanceId
	awstest.Must[any](t)(record.Machines(f.Store).Put(ctx, record.EC2Key(iamtest.Account, iamtest.Region, instance),
		record.Machine{InstanceID: instance, State: types.InstanceStateNameRunning, Boot: 1}))
	attach := func(c *ec2.Client, dry bool) error {
		return failed(c.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &instance,
			Device: aws.String("/dev/xvdf"), DryRun: &dry}))
	}
	wantRefusal(t, "attach without the key", attach(f.user("nobody", nil), false), "UnauthorizedOperation")
	wantRefusal(t, "attach with Decrypt alone", attach(f.user("half", map[string][]string{key: {"Decrypt"}}), false),
		"UnauthorizedOperation")
	wantRefusal(t, "attach with the key", attach(f.user("user", map[string][]string{key: {"Decrypt", "CreateGrant"}}),
		true), "DryRunOperation")
	// Whoever starts the instance has its machine read the volume, too.
	awstest.Must[any](t)(root.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &instance,
		Device: aws.String("/dev/xvdg")}))
	awstest.Must[any](t)(root.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{instance}}))
	awstest.Must[any](t)(record.Machines(f.Store).Put(ctx, record.EC2Key(iamtest.Account, iamtest.Region, instance),
		record.Machine{InstanceID: instance, State: types.InstanceStateNameStopped, Boot: 1}))
	start := func(name string, keys map[string][]string) error {
		return failed(f.user(name, keys).StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{instance},
			DryRun: aws.Bool(true)}))
	}
	wantRefusal(t, "start without the key", start("starter", nil), "UnauthorizedOperation")
	wantRefusal(t, "start with the key", start("owner", map[string][]string{key: {"Decrypt", "CreateGrant"}}),
		"DryRunOperation")
	volume, _ = f.encrypted(key)
	granted := f.NewUser(t, "granted", fmt.Sprintf(`{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":["ec2:*","kms:Decrypt"],"Resource":"*"},
		{"Effect":"Allow","Action":"kms:CreateGrant","Resource":"%s",
		"Condition":{"Bool":{"kms:GrantIsForAWSResource":"true"}}}]}`, key))
	wantRefusal(t, "attach with grants for AWS resources", attach(f.ec2(granted), true), "DryRunOperation")
	awstest.Must[any](t)(f.kms(f.Root).DisableKey(ctx, &kms.DisableKeyInput{KeyId: &key}))
	create := func() error {
		return failed(root.CreateVolume(ctx, &ec2.CreateVolumeInput{SnapshotId: &snapshot,
			AvailabilityZone: aws.String(iamtest.Region + "a")}))
	}
	wantRefusal(t, "attach under a disabled key", attach(root, false), "InvalidKMSKey.InvalidState")
	wantRefusal(t, "create under a disabled key", create(), "InvalidKMSKey.InvalidState")
	awstest.Must[any](t)(f.kms(f.Root).ScheduleKeyDeletion(ctx, &kms.ScheduleKeyDeletionInput{KeyId: &key}))
	wantRefusal(t, "attach under a key that goes", attach(root, false), "InvalidKMSKey.InvalidState")
	_, err := root.CreateVolume(ctx, &ec2.CreateVolumeInput{Encrypted: aws.Bool(true), Size: aws.Int32(1),
		KmsKeyId: aws.String("alias/absent"), AvailabilityZone: aws.String(iamtest.Region + "a")})
	wantRefusal(t, "create under an absent key", err, "InvalidKMSKey.NotFound")
}

// TestAStartNeedsTheKeyForEachVolume has users start an instance with two volumes under one key. Policies let them use
// it for some volumes.
func TestAStartNeedsTheKeyForEachVolume(t *testing.T) {
	t.Parallel()
	f := newKeyFixture(t)
	ctx, root := t.Context(), f.ec2(f.Root)
	key := f.key()
	first, _ := f.encrypted(key)
	second, _ := f.encrypted(key)
	image := imageOf(iamtest.Region, t, "x86_64")
	instance := *awstest.Must[*ec2.RunInstancesOutput](t)(root.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: &image,
		InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		Placement: &types.Placement{AvailabilityZone: aws.String(iamtest.Region + "a")}})).Instances[0].InstanceId
	machine := record.EC2Key(iamtest.Account, iamtest.Region, instance)
	awstest.Must[any](t)(record.Machines(f.Store).Put(ctx, machine,
		record.Machine{InstanceID: instance, State: types.InstanceStateNameRunning, Boot: 1}))
	for device, volume := range map[string]string{"/dev/xvdf": first, "/dev/xvdg": second} {
		awstest.Must[any](t)(root.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &instance,
			Device: &device}))
	}
	awstest.Must[any](t)(root.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{instance}}))
	awstest.Must[any](t)(record.Machines(f.Store).Put(ctx, machine,
		record.Machine{InstanceID: instance, State: types.InstanceStateNameStopped, Boot: 1}))
	decrypt := func(effect string, volumes ...string) string {
		return fmt.Sprintf(`{"Effect":"%s","Action":"kms:Decrypt","Resource":"%s","Condition":{"StringEquals":
			{"kms:EncryptionContext:aws:ebs:id":["%s"]}}}`, effect, key, strings.Join(volumes, `","`))
	}
	for name, row := range map[string]struct {
		statements []string
		want       string
	}{
		"the-first":          {[]string{decrypt("Allow", first)}, "UnauthorizedOperation"},
		"the-second":         {[]string{decrypt("Allow", second)}, "UnauthorizedOperation"},
		"both":               {[]string{decrypt("Allow", first, second)}, "DryRunOperation"},
		"both-but-the-first": {[]string{decrypt("Allow", first, second), decrypt("Deny", first)}, "UnauthorizedOperation"},
		"both-but-the-second": {[]string{decrypt("Allow", first, second), decrypt("Deny", second)},
			"UnauthorizedOperation"},
		"both-but-another-one": {[]string{decrypt("Allow", first, second), decrypt("Deny", "vol-1")}, "DryRunOperation"},
	} {
		user := f.ec2(f.NewUser(t, name, `{"Version":"2012-10-17","Statement":[
			{"Effect":"Allow","Action":["ec2:*","kms:CreateGrant"],"Resource":"*"},`+
			strings.Join(row.statements, ",")+`]}`))
		_, err := user.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{instance}, DryRun: aws.Bool(true)})
		wantRefusal(t, "start with the key for "+name, err, row.want)
	}
}

// TestEncryptionByDefault encrypts what no request asks to, with the default key of the account.
func TestEncryptionByDefault(t *testing.T) {
	t.Parallel()
	f := newKeyFixture(t)
	ctx, root := t.Context(), f.ec2(f.Root)
	anybody := f.user("anybody", nil)
	_, err := root.CreateVolume(ctx, &ec2.CreateVolumeInput{Size: aws.Int32(1), Encrypted: aws.Bool(true),
		AvailabilityZone: aws.String(iamtest.Region + "a"), DryRun: aws.Bool(true)})
	wantRefusal(t, "a dry run", err, "DryRunOperation")
	if n := record.KMSKeys(f.Store).Count(""); n != 0 {
		t.Errorf("a dry run made %d keys", n)
	}
	create := func(c *ec2.Client) (*ec2.CreateVolumeOutput, error) {
		return c.CreateVolume(ctx, &ec2.CreateVolumeInput{Size: aws.Int32(1),
			AvailabilityZone: aws.String(iamtest.Region + "a")})
	}
	on := awstest.Must[*ec2.EnableEbsEncryptionByDefaultOutput](t)(root.EnableEbsEncryptionByDefault(ctx,
		&ec2.EnableEbsEncryptionByDefaultInput{}))
	got := awstest.Must[*ec2.GetEbsEncryptionByDefaultOutput](t)(root.GetEbsEncryptionByDefault(ctx,
		&ec2.GetEbsEncryptionByDefaultInput{}))
	if !*on.EbsEncryptionByDefault || !*got.EbsEncryptionByDefault {
		t.Errorf("enabled: %+v, %+v", on, got)
	}
	// Everybody who may use EC2 may use the AWS managed key through it.
	v := awstest.Must[*ec2.CreateVolumeOutput](t)(create(anybody))
	managed := awstest.Must[*kms.DescribeKeyOutput](t)(f.kms(f.Root).DescribeKey(ctx,
		&kms.DescribeKeyInput{KeyId: aws.String("alias/aws/ebs")})).KeyMetadata
	if !*v.Encrypted || *v.KmsKeyId != *managed.Arn {
		t.Errorf("volume %+v, want key %s", v, *managed.Arn)
	}
	key := f.key()
	wantRefusal(t, "a default key without kms:DescribeKey", failed(anybody.ModifyEbsDefaultKmsKeyId(ctx,
		&ec2.ModifyEbsDefaultKmsKeyIdInput{KmsKeyId: &key})), "UnauthorizedOperation")
	awstest.Must[any](t)(root.ModifyEbsDefaultKmsKeyId(ctx, &ec2.ModifyEbsDefaultKmsKeyIdInput{KmsKeyId: &key}))
	if out := awstest.Must[*ec2.GetEbsDefaultKmsKeyIdOutput](t)(root.GetEbsDefaultKmsKeyId(ctx,
		&ec2.GetEbsDefaultKmsKeyIdInput{})); *out.KmsKeyId != key {
		t.Errorf("default key %s", *out.KmsKeyId)
	}
	wantRefusal(t, "create under a default key of others", failed(create(anybody)), "UnauthorizedOperation")
	if v := awstest.Must[*ec2.CreateVolumeOutput](t)(create(root)); *v.KmsKeyId != key {
		t.Errorf("key %s", *v.KmsKeyId)
	}
	image := imageOf(iamtest.Region, t, "x86_64")
	run := func(c *ec2.Client) error {
		return failed(c.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: &image, InstanceType: "m5.large",
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}))
	}
	wantRefusal(t, "launch under a default key of others", run(anybody), "UnauthorizedOperation")
	wantRefusal(t, "launch", run(root), "")
	awstest.Must[any](t)(root.ResetEbsDefaultKmsKeyId(ctx, &ec2.ResetEbsDefaultKmsKeyIdInput{}))
	wantRefusal(t, "launch under the managed key", run(anybody), "")
	awstest.Must[any](t)(root.DisableEbsEncryptionByDefault(ctx, &ec2.DisableEbsEncryptionByDefaultInput{}))
	if v := awstest.Must[*ec2.CreateVolumeOutput](t)(create(anybody)); *v.Encrypted {
		t.Errorf("volume %+v", v)
	}
}

// TestEncryptedSnapshotOfAnotherAccount makes a volume of a snapshot whose key belongs to another account: the policy
// of the key must let its maker, and the volume gets a key of the maker's.
func TestEncryptedSnapshotOfAnotherAccount(t *testing.T) {
	t.Parallel()
	f := newKeyFixture(t)
	ctx, root := t.Context(), f.ec2(f.Root)
	key := f.key()
	_, snapshot := f.encrypted(key)
	theirs := f.NewAccount(t, iamtest.Other)
	them := f.ec2(theirs)
	awstest.Must[any](t)(root.ModifySnapshotAttribute(ctx, &ec2.ModifySnapshotAttributeInput{SnapshotId: &snapshot,
		OperationType: types.OperationTypeAdd, UserIds: []string{iamtest.Other}}))
	create := func() (*ec2.CreateVolumeOutput, error) {
		return them.CreateVolume(ctx, &ec2.CreateVolumeInput{SnapshotId: &snapshot,
			AvailabilityZone: aws.String(iamtest.Region + "a")})
	}
	duplicate := func() error {
		return failed(them.CopySnapshot(ctx, &ec2.CopySnapshotInput{SourceSnapshotId: &snapshot,
			SourceRegion: aws.String(iamtest.Region)}))
	}
	wantRefusal(t, "create without the key", failed(create()), "UnauthorizedOperation")
	awstest.Must[any](t)(f.kms(f.Root).CreateAlias(ctx, &kms.CreateAliasInput{AliasName: aws.String("alias/secret"),
		TargetKeyId: &key}))
	alias := key[:strings.Index(key, "key/")] + "alias/secret"
	for _, named := range []string{key, alias} {
		_, err := them.CreateVolume(ctx, &ec2.CreateVolumeInput{Size: aws.Int32(1), Encrypted: aws.Bool(true),
			KmsKeyId: &named, AvailabilityZone: aws.String(iamtest.Region + "a")})
		_, text, _ := awstest.Failure(err)
		_, encoded, found := strings.Cut(text, "Encoded authorization failure message: ")
		if !found {
			t.Fatalf("a denial without an encoded message: %v", err)
		}
		out := awstest.Must[*sts.DecodeAuthorizationMessageOutput](t)(f.STS(theirs).DecodeAuthorizationMessage(ctx,
			&sts.DecodeAuthorizationMessageInput{EncodedMessage: &encoded}))
		for _, secret := range []string{"kms:ResourceAliases", "aws:ResourceTag"} {
			if strings.Contains(*out.DecodedMessage, secret) {
				t.Errorf("the denial about %s tells %s: %s", named, secret, *out.DecodedMessage)
			}
		}
		if named != key && strings.Contains(*out.DecodedMessage, key) {
			t.Errorf("the denial about %s tells the key", named)
		}
	}
	wantRefusal(t, "copy without the key", duplicate(), "UnauthorizedOperation")
	policy := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"%s"},
		"Action":"kms:*","Resource":"*"},{"Effect":"Allow","Principal":{"AWS":"%s"},
		"Action":["kms:Decrypt","kms:ReEncryptFrom"],"Resource":"*",
		"Condition":{"StringEquals":{"kms:ViaService":"ec2.%s.amazonaws.com","kms:EncryptionContext:aws:ebs:id":"%s"}}}]}`,
		"arn:aws:iam::"+iamtest.Account+":root", "arn:aws:iam::"+iamtest.Other+":root", iamtest.Region, snapshot)
	awstest.Must[any](t)(f.kms(f.Root).PutKeyPolicy(ctx, &kms.PutKeyPolicyInput{KeyId: &key, Policy: &policy}))
	v := awstest.Must[*ec2.CreateVolumeOutput](t)(create())
	if !*v.Encrypted || *v.KmsKeyId == key || !strings.Contains(*v.KmsKeyId, ":"+iamtest.Other+":key/") {
		t.Errorf("the volume has the key %s", *v.KmsKeyId)
	}
	wantRefusal(t, "copy with the key", duplicate(), "")
}
