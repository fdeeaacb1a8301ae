package fargate_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/ami"
	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// fixture is the EKS API behind an HTTP server, with what the tests of this part do with it.
type fixture struct{ *ekstest.Fixture }

func newFixture(t testing.TB) fixture { return fixture{ekstest.New(t)} }

// profile returns a CreateFargateProfile that succeeds.
func profile(cluster, name string) *eks.CreateFargateProfileInput {
	return &eks.CreateFargateProfileInput{
		ClusterName: &cluster, FargateProfileName: &name, PodExecutionRoleArn: aws.String(ekstest.FargateRole),
		Selectors: []types.FargateProfileSelector{{Namespace: aws.String("default")}},
	}
}

// createProfile creates a profile that becomes active.
func (w fixture) createProfile(
	cluster, name string, edit ...func(*eks.CreateFargateProfileInput),
) *types.FargateProfile {
	w.T.Helper()
	in := profile(cluster, name)
	for _, e := range edit {
		e(in)
	}
	if _, err := w.Client.CreateFargateProfile(w.T.Context(), in); err != nil {
		w.T.Fatalf("create Fargate profile %s: %v", name, err)
	}
	w.observeProfile(cluster, name, record.FargateProfileState{Created: true})
	return w.describeProfile(cluster, name)
}

func (w fixture) describeProfile(cluster, name string) *types.FargateProfile {
	w.T.Helper()
	out, err := w.Client.DescribeFargateProfile(w.T.Context(), &eks.DescribeFargateProfileInput{
		ClusterName: &cluster, FargateProfileName: &name,
	})
	if err != nil {
		w.T.Fatalf("describe Fargate profile %s: %v", name, err)
	}
	return out.FargateProfile
}

func (w fixture) deleteProfile(cluster, name string) (*types.FargateProfile, error) {
	w.T.Helper()
	out, err := w.Client.DeleteFargateProfile(w.T.Context(), &eks.DeleteFargateProfileInput{
		ClusterName: &cluster, FargateProfileName: &name,
	})
	if err != nil {
		return nil, err
	}
	return out.FargateProfile, nil
}

func (w fixture) row(cluster, name string) record.FargateProfile {
	w.T.Helper()
	row, err := record.FargateProfiles(w.Store).Get(w.T.Context(), record.FargateProfileKey(ekstest.Account,
		ekstest.Region, cluster, name))
	if err != nil {
		w.T.Fatal(err)
	}
	return row.Value
}

// observeProfile stands for the controller: it writes the observed state of a profile.
func (w fixture) observeProfile(cluster, name string, state record.FargateProfileState) {
	w.T.Helper()
	p := w.row(cluster, name)
	state.ProfileID = p.ID
	ekstest.Put(w.T, record.FargateProfileStates(w.Store), p.Key(), state)
}

// forget stands for the controller: it removes the record of a profile that is gone.
func (w fixture) forget(cluster, name string) {
	w.T.Helper()
	key := record.FargateProfileKey(ekstest.Account, ekstest.Region, cluster, name)
	err := w.Store.Txn(w.T.Context(), record.FargateProfiles(w.Store).RemoveOp(key),
		record.FargateProfileStates(w.Store).RemoveOp(key))
	if err != nil {
		w.T.Fatal(err)
	}
}

func (w fixture) profiles(cluster string) []string {
	w.T.Helper()
	var names []string
	pages := eks.NewListFargateProfilesPaginator(w.Client, &eks.ListFargateProfilesInput{ClusterName: &cluster,
		MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		names = append(names, page.FargateProfileNames...)
	}
	return names
}

// network is a VPC as its user would make it, with subnets in two zones: private ones, and public ones, whose route
// table leads to an internet gateway.
type network struct{ private, public []string }

func (w fixture) network() network {
	w.T.Helper()
	ctx := w.T.Context()
	vpc := awstest.Must[*ec2.CreateVpcOutput](w.T)(w.EC2.CreateVpc(ctx,
		&ec2.CreateVpcInput{CidrBlock: aws.String("10.7.0.0/16")})).Vpc
	gateway := awstest.Must[*ec2.CreateInternetGatewayOutput](w.T)(w.EC2.CreateInternetGateway(ctx,
		&ec2.CreateInternetGatewayInput{})).InternetGateway
	awstest.Must[*ec2.AttachInternetGatewayOutput](w.T)(w.EC2.AttachInternetGateway(ctx,
		&ec2.AttachInternetGatewayInput{InternetGatewayId: gateway.InternetGatewayId, VpcId: vpc.VpcId}))
	table := awstest.Must[*ec2.CreateRouteTableOutput](w.T)(w.EC2.CreateRouteTable(ctx,
		&ec2.CreateRouteTableInput{VpcId: vpc.VpcId})).RouteTable
	awstest.Must[*ec2.CreateRouteOutput](w.T)(w.EC2.CreateRoute(ctx, &ec2.CreateRouteInput{
		RouteTableId: table.RouteTableId, DestinationCidrBlock: aws.String("0.0.0.0/0"),
		GatewayId: gateway.InternetGatewayId,
	}))
	subnet := func(cidr, zone string) string {
		return *awstest.Must[*ec2.CreateSubnetOutput](w.T)(w.EC2.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: vpc.VpcId, CidrBlock: &cidr, AvailabilityZone: aws.String(ekstest.Region + zone),
		})).Subnet.SubnetId
	}
	n := network{
		private: []string{subnet("10.7.0.0/24", "a"), subnet("10.7.1.0/24", "b")},
		public:  []string{subnet("10.7.2.0/24", "a"), subnet("10.7.3.0/24", "b")},
	}
	for _, id := range n.public {
		awstest.Must[*ec2.AssociateRouteTableOutput](w.T)(w.EC2.AssociateRouteTable(ctx, &ec2.AssociateRouteTableInput{
			RouteTableId: table.RouteTableId, SubnetId: &id,
		}))
	}
	return n
}

func subnets(ids ...string) func(*eks.CreateClusterInput) {
	return func(in *eks.CreateClusterInput) { in.ResourcesVpcConfig.SubnetIds = ids }
}

// nodeImage returns the ID of the image of nodes of a version of Kubernetes.
func (w fixture) nodeImage(version string) string {
	w.T.Helper()
	image, ok := ami.ByParameter(ekstest.Region, "/aws/service/eks/optimized-ami/"+version+
		"/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if !ok {
		w.T.Fatalf("no image of %s", version)
	}
	return image.ID
}
