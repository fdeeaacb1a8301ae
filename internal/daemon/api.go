package daemon

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	acmservice "github.com/coracle-eks/coracle/internal/aws/acm"
	autoscalingservice "github.com/coracle-eks/coracle/internal/aws/autoscaling"
	cloudformationservice "github.com/coracle-eks/coracle/internal/aws/cloudformation"
	cloudtrailservice "github.com/coracle-eks/coracle/internal/aws/cloudtrail"
	cloudwatchservice "github.com/coracle-eks/coracle/internal/aws/cloudwatch"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	ecrservice "github.com/coracle-eks/coracle/internal/aws/ecr"
	efsservice "github.com/coracle-eks/coracle/internal/aws/efs"
	eksservice "github.com/coracle-eks/coracle/internal/aws/eks"
	"github.com/coracle-eks/coracle/internal/aws/elb"
	iamservice "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	kmsservice "github.com/coracle-eks/coracle/internal/aws/kms"
	logsservice "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/aws/shield"
	ssmservice "github.com/coracle-eks/coracle/internal/aws/ssm"
	stsservice "github.com/coracle-eks/coracle/internal/aws/sts"
	"github.com/coracle-eks/coracle/internal/aws/waf"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/stack"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/forward"
	"github.com/coracle-eks/coracle/internal/kube/clusterproxy"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// apiLayer is the API layer: the AWS services behind one mux.
type apiLayer struct {
	dir      datadir.Dir
	store    *store.Store
	mux      *wire.Mux
	identity *identity.Identity
	ec2      *ec2service.Service
	efs      *efsservice.Service
	access   ecrservice.Access // to the registry of images
	stacks   *cloudformationservice.Service
	types    stack.TypeTable // of the resources of stacks
	history  *cloudtrailservice.History
	// forwarder serves the services that the operator has endpoints for.
	forwarder *forward.Forwarder

	mu sync.Mutex // held while an account is made
}

// openAPI registers the services, and sees to it that the account of the daemon exists.
func (d *daemon) openAPI(ctx context.Context) (*apiLayer, error) {
	who, err := identity.New(ctx, d.store, identity.Options{Log: d.log})
	if err != nil {
		return nil, err
	}
	f := &apiLayer{dir: d.dir, store: d.store, identity: who}
	f.history = cloudtrailservice.NewHistory(cloudtrailservice.Options{Events: d.logs.events, Log: d.log})
	f.mux = wire.NewMux(wire.Options{Credentials: who, Authorizer: who, Logger: d.log, Region: d.settings.Region,
		Answered: f.history.Record})
	public, err := d.publicRange()
	if err != nil {
		return nil, err
	}
	keys := kmsservice.New(kmsservice.Options{Store: d.store})
	f.ec2 = ec2service.New(ec2service.Options{Store: d.store, PublicRange: public, Keys: keys,
		DisklessRoots: d.sharedDisk != ""})
	f.efs = newEFS(d.store, who, f.ec2, keys)
	images := ecrservice.New(ecrservice.Options{Store: d.store, Images: d.host.images, Identity: who,
		Endpoint: AdvertisedURL(d.settings)})
	f.access = ecrservice.NewAccess(images)
	nodegroups, err := quotaOf(eksservice.NodegroupQuota, "node groups")
	if err != nil {
		return nil, err
	}
	profiles, err := quotaOf(eksservice.FargateProfileQuota, "Fargate profiles")
	if err != nil {
		return nil, err
	}
	clusters, err := quotaOf(eksservice.ClusterQuota, "clusters")
	if err != nil {
		return nil, err
	}
	issuers := stsservice.NewIssuers(d.store, d.outbound, d.log)
	eks := eksservice.Options{
		Store: d.store, EC2: f.ec2, ServiceLinkedRoles: iamservice.NewServiceLinkedRoles(d.store, nil), Catalog: d.catalog,
		NodegroupsPerCluster: nodegroups, FargateProfilesPerCluster: profiles, ClustersPerRegion: clusters,
		MayAddCluster: etcd.MayAddCluster,
		Advertise: func(ctx context.Context, clusterID string) (string, []byte) {
			return clusterproxy.URL(ctx, clusterID), d.authority.PEM
		}}
	register(f.mux, d.store, who, issuers, d.certificateOptions(), f.ec2, f.efs, keys, images, d.logs.options(d.store),
		eks)
	cloudtrailservice.New(f.history).Register(f.mux)
	f.types = stack.Types(d.store, d.waitConditionURL)
	f.stacks = cloudformationservice.New(cloudformationservice.Options{Store: d.store, Identity: who, Types: f.types,
		Config: f.stackConfig})
	f.stacks.Register(f.mux)
	cloudwatchservice.New(d.points).Register(f.mux)
	if f.forwarder, err = d.openForwarder(f.mux); err != nil {
		return nil, err
	}
	if err := d.ensureServiceRoles(ctx); err != nil {
		return nil, err
	}
	_, err = f.ensureAccount(ctx, d.settings.Account)
	return f, err
}

// waitConditionURL returns the beginning of the URLs to which wait conditions of a region are signaled: by instances
// above all, which find AWS's names alone.
func (d *daemon) waitConditionURL(region string) string {
	if d.host.apis == nil {
		return AdvertisedURL(d.settings)
	}
	return "https://cloudformation-waitcondition-" + region + ".s3." + region + ".amazonaws.com"
}

// quotaOf returns the quota that a variable of the environment sets; 0 if it is not set.
func quotaOf(variable, of string) (int, error) {
	text := os.Getenv(variable)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s=%q is not a number of %s, such as 100", variable, text, of)
	}
	return n, nil
}

// register serves every AWS service there is.
func register(mux *wire.Mux, s *store.Store, who *identity.Identity, issuers *stsservice.Issuers,
	acm acmservice.Options, ec2 *ec2service.Service, efs *efsservice.Service, kms *kmsservice.Service,
	ecr *ecrservice.Service, logs logsservice.Options, eks eksservice.Options) {
	acmservice.New(acm).Register(mux)
	ec2.Register(mux)
	efs.Register(mux)
	ecr.Register(mux)
	stsservice.New(s, who, issuers, nil).Register(mux)
	iamservice.New(s, who, nil).Register(mux)
	logsservice.New(logs).Register(mux)
	autoscalingservice.New(autoscalingservice.Options{Store: s, EC2: ec2,
		ServiceLinkedRoles: iamservice.NewServiceLinkedRoles(s, nil)}).Register(mux)
	kms.Register(mux)
	ssmservice.New(ssmservice.Options{Store: s, KMS: kms}).Register(mux)
	eks.KMS = kms
	eksservice.New(eks).Register(mux)
	elb.Register(mux, elb.Options{Store: s, EC2: ec2.NetworkInterfaces.Records})
	waf.Register(mux, waf.Options{Store: s})
	shield.Register(mux)
}

// accounts returns the numbers of the accounts, sorted.
func (f *apiLayer) accounts(ctx context.Context) ([]string, error) {
	return iamservice.Accounts(ctx, f.store)
}

// ensureAccount makes an account unless it is there, and keeps the root access keys of all
// accounts in the data directory.
func (f *apiLayer) ensureAccount(ctx context.Context, account string) (datadir.Credentials, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	accounts, err := f.accounts(ctx)
	if err != nil {
		return datadir.Credentials{}, err
	}
	all := map[string]datadir.Credentials{}
	for _, a := range append(accounts, account) {
		key, err := iamservice.Bootstrap(ctx, f.store, a)
		if err != nil {
			return datadir.Credentials{}, err
		}
		all[a] = datadir.Credentials{AccessKeyID: key.ID, SecretAccessKey: key.Secret}
	}
	return all[account], f.dir.WriteCredentials(all)
}

// clientConfig returns the SDK's configuration for a client inside this process: its calls are signed, verified and
// authorized like any other, but use no network.
func (f *apiLayer) clientConfig(region string, who aws.CredentialsProvider) aws.Config {
	return aws.Config{
		Region:           region,
		BaseEndpoint:     aws.String("http://coracle.internal"),
		HTTPClient:       &http.Client{Transport: f.mux.Transport()},
		Credentials:      who,
		RetryMaxAttempts: 1, // controllers have a back-off of their own
	}
}

// stackConfig returns the SDK's configuration with which CloudFormation operates on a stack: on behalf of who asked for
// it, or under the stack's service role.
func (f *apiLayer) stackConfig(region string, caller record.ForwardedSession, roleARN, stackARN string) aws.Config {
	if roleARN != "" {
		return f.clientConfig(region, f.identity.PassedRoleCredentials(roleARN, wire.CloudFormationPrincipal,
			"AWSCloudFormation", stackARN))
	}
	return f.clientConfig(region, f.identity.ForwardedCredentials(caller, wire.CloudFormationPrincipal))
}

// eksClient returns a client of EKS for the root user of an account.
func (f *apiLayer) eksClient(account, region string) *eks.Client {
	root := aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		all, err := f.dir.ReadCredentials()
		if err != nil {
			return aws.Credentials{}, err
		}
		return credentials.NewStaticCredentialsProvider(all[account].AccessKeyID, all[account].SecretAccessKey,
			"").Retrieve(ctx)
	})
	return eks.NewFromConfig(f.clientConfig(region, root))
}
