package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
	"github.com/coracle-eks/coracle/internal/aws/autoscaling"
	iamservice "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/controller/autoscalinggroup"
	"github.com/coracle-eks/coracle/internal/controller/clusterinsight"
	"github.com/coracle-eks/coracle/internal/controller/clustermetrics"
	"github.com/coracle-eks/coracle/internal/controller/controlplane"
	"github.com/coracle-eks/coracle/internal/controller/corednsautoscaler"
	"github.com/coracle-eks/coracle/internal/controller/fargate"
	"github.com/coracle-eks/coracle/internal/controller/instance"
	"github.com/coracle-eks/coracle/internal/controller/kmskey"
	"github.com/coracle-eks/coracle/internal/controller/kubeletcsr"
	"github.com/coracle-eks/coracle/internal/controller/logshipper"
	"github.com/coracle-eks/coracle/internal/controller/networkpolicy"
	"github.com/coracle-eks/coracle/internal/controller/stack"
	"github.com/coracle-eks/coracle/internal/controller/volume"
	"github.com/coracle-eks/coracle/internal/controller/vpcresource"
	"github.com/coracle-eks/coracle/internal/kube/authenticator"
	kubefargate "github.com/coracle-eks/coracle/internal/kube/fargate"
	"github.com/coracle-eks/coracle/internal/kube/kmsplugin"
	"github.com/coracle-eks/coracle/internal/kube/podidentity"
	"github.com/coracle-eks/coracle/internal/kube/servicerole"
	kubevpcresource "github.com/coracle-eks/coracle/internal/kube/vpcresource"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
)

// eksRole is the service-linked role under which EKS acts in an account.
// https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks.html
const eksRole = "AWSServiceRoleForAmazonEKS"

// authenticatorUser is the user name of the authenticator at an API server.
const authenticatorUser = "eks:authenticator"

// clusters has the controllers that EKS runs for clusters.
type clusters struct {
	planes        *controlplane.Controller
	authenticator *authenticator.Authenticator
	logging       *logshipper.Controller
	plugins       *kmsplugin.Plugins
	fargate       *fargate.Controller
	controllers   []reconcile.Controller
}

func (c *clusters) close() error {
	c.plugins.Close()
	return c.logging.Close()
}

func (d *daemon) openClusters(ctx context.Context) (*clusters, error) {
	dir := d.dir.Join("clusters")
	logs := logshipper.New(logshipper.Options{
		Store:  d.store,
		Events: d.logs.events,
		Dir:    dir,
		Logs: func(account, region string) logshipper.Logs {
			return cloudwatchlogs.NewFromConfig(d.eksConfig(account, region))
		},
		Log: d.log,
	})
	plugins := kmsplugin.New(kmsplugin.Options{
		Dir: d.dir.Join("kms"), Log: d.log,
		KMS: func(account, region string) kmsplugin.KMS { return awskms.NewFromConfig(d.eksConfig(account, region)) },
	})
	if err := process.CheckConfinement(); err != nil {
		d.log.Warn("the kernel does not hold programs of control planes to the ports that they need; see \"coracle doctor\"",
			"reason", err)
	}
	planes := controlplane.New(controlplane.Options{
		Secrets:       plugins,
		Store:         d.store,
		Etcd:          d.etcd,
		Dir:           dir,
		Host:          d.processes,
		Bundles:       d.bundles,
		Endpoints:     d.host.endpoints,
		EgressSockets: d.egressSockets, TrustedCertificates: d.dir.ProviderRoots(),
		EC2:           func(account, region string) controlplane.EC2 { return d.newEC2Client(account, region) },
		Subscribe:     d.events.subscribe,
		Webhooks:      d.webhooks,
		CloudProvider: d.cloudProvider,
		Stopped:       logs.Drain,
		Log:           d.log,
	})
	c := &clusters{
		planes: planes,
		authenticator: authenticator.New(authenticator.Options{
			Store: d.store,
			STS:   d.api.mux.Transport(), Service: wire.ServiceOf,
			Own: d.isOwn(),
			RESTConfig: func(ctx context.Context, c record.Cluster) (*rest.Config, error) {
				return planes.Config(ctx, c, authenticatorUser)
			},
			Admission: d.newPodIdentity(planes),
			Fargate:   kubefargate.New(d.store),
			VPCResource: kubevpcresource.New(func(ctx context.Context, c record.Cluster) (*rest.Config, error) {
				return planes.Config(ctx, c, kubevpcresource.User)
			}, d.log),
			Instances: func(c record.Cluster) authenticator.Instances { return d.newEC2Client(c.Account, c.Region) },
			Dir:       func(clusterID string) string { return d.dir.Join("clusters", clusterID) },
			Log:       d.log,
		}),
		logging:     logs,
		plugins:     plugins,
		controllers: []reconcile.Controller{planes.Controller(), logs.Controller()},
	}
	addons, err := d.newAddonController(planes)
	if err != nil {
		return nil, err
	}
	c.controllers = append(c.controllers, addons.Controllers()...)
	c.controllers = append(c.controllers, kubeletcsr.New(kubeletcsr.Options{
		Store: d.store, Config: planes.Config, Log: d.log,
		EC2: func(account, region string) kubeletcsr.EC2 { return d.newEC2Client(account, region) },
	}).Controllers()...)
	c.controllers = append(c.controllers, clusterinsight.New(clusterinsight.Options{
		Store: d.store, Catalog: d.catalog, Config: planes.Config, Dir: dir, Log: d.log,
	}).Controllers()...)
	c.controllers = append(c.controllers, corednsautoscaler.New(corednsautoscaler.Options{
		Store: d.store, Config: planes.Config, Log: d.log,
	}).Controllers()...)
	c.controllers = append(c.controllers, clustermetrics.New(clustermetrics.Options{
		Store: d.store, Config: planes.Config,
	}).Controllers()...)
	c.controllers = append(c.controllers, d.newResourceUsage().Controllers()...)
	c.controllers = append(c.controllers, networkpolicy.New(networkpolicy.Options{
		Store: d.store, Config: planes.Config, Log: d.log,
	}).Controllers()...)
	c.controllers = append(c.controllers, vpcresource.New(vpcresource.Options{
		Store: d.store, Config: planes.Config, EC2: d.clusterEC2, Log: d.log,
		Trunks: func(account, region string) vpcresource.Trunks { return d.newEC2Client(account, region) },
	}).Controllers()...)
	groups, err := d.nodegroups(planes)
	if err != nil {
		return nil, err
	}
	c.controllers = append(c.controllers, groups.Controllers()...)
	if c.fargate, err = d.newFargate(planes); err != nil {
		return nil, err
	}
	c.controllers = append(c.controllers, c.fargate.Controllers()...)
	c.controllers = append(c.controllers, d.newCapabilities(planes).Controllers()...)
	c.controllers = append(c.controllers, d.hostControllers(ctx, planes)...)
	c.controllers = append(c.controllers, autoscalinggroup.New(autoscalinggroup.Options{
		Store: d.store, Log: d.log, API: autoscaling.NewUpkeep(autoscaling.Options{Store: d.store}),
		EC2: func(account, region, role string) autoscalinggroup.EC2 {
			return ec2.NewFromConfig(d.autoScalingConfig(account, region, role))
		},
		Classic: func(account, region, role string) autoscalinggroup.Classic {
			return elasticloadbalancing.NewFromConfig(d.autoScalingConfig(account, region, role))
		},
		TargetGroups: func(account, region, role string) autoscalinggroup.TargetGroups {
			return elasticloadbalancingv2.NewFromConfig(d.autoScalingConfig(account, region, role))
		},
	}).Controllers()...)
	c.controllers = append(c.controllers, instance.New(instance.Options{
		Store: d.store, EC2: d.api.ec2.InstanceLifecycle(),
	}).Controllers()...)
	c.controllers = append(c.controllers, volume.New(volume.Options{
		Store: d.store, EC2: d.api.ec2.VolumeLifecycle(),
	}).Controllers()...)
	c.controllers = append(c.controllers, d.newFileSystems().Controllers()...)
	c.controllers = append(c.controllers, kmskey.New(kmskey.Options{
		Store: d.store, KMS: kms.NewLifecycle(kms.Options{Store: d.store}),
	}).Controllers()...)
	c.controllers = append(c.controllers, d.newCertificateController().Controllers()...)
	c.controllers = append(c.controllers, stack.New(stack.Options{
		Store: d.store, Types: d.api.types, Config: d.api.stackConfig, Log: d.log,
	}).Controllers()...)
	return c, nil
}

// autoScalingConfig returns the configuration of clients under the service-linked role of a group.
func (d *daemon) autoScalingConfig(account, region, role string) aws.Config {
	return d.api.clientConfig(region, d.api.identity.ServiceRoleCredentials(account, path.Base(role), "AutoScaling"))
}

// isOwn returns what tells the hosts in tokens that are this daemon's endpoint.
func (d *daemon) isOwn() func(host string) bool {
	if d.settings.AdvertiseAddress == Auto {
		return func(string) bool { return true } // clients may know it by any address
	}
	return authenticator.OwnHosts(d.ownAddresses()...)
}

// ownAddresses returns the addresses on which this daemon serves the AWS APIs: on the host, and inside VPCs.
func (d *daemon) ownAddresses() []string {
	own := []string{d.settings.Listen}
	if address := d.settings.AdvertiseAddress; address != "" && address != Auto {
		own = append(own, address)
	}
	if d.host.apis != nil {
		host := d.host.apis.Address().String()
		for _, port := range []string{"443", "80", "4566"} {
			own = append(own, net.JoinHostPort(host, port))
		}
	}
	return own
}

// eksConfig returns the SDK's configuration under the service-linked role of EKS.
func (d *daemon) eksConfig(account, region string) aws.Config {
	return d.api.clientConfig(region, d.api.identity.ServiceRoleCredentials(account, eksRole,
		controlplane.SessionName))
}

// clusterConfig returns the configuration with which a user of EKS's reaches a cluster's API server: by tokens of a
// role of the service, if the user is known by one, or by a certificate.
func (d *daemon) clusterConfig(planes *controlplane.Controller) func(context.Context, record.Cluster, string,
	...string) (*rest.Config, error) {
	return func(ctx context.Context, c record.Cluster, user string, groups ...string) (*rest.Config, error) {
		config, err := planes.Config(ctx, c, user, groups...)
		role, ok := servicerole.NameOf(user)
		if err != nil || !ok || len(groups) > 0 {
			return config, err
		}
		return servicerole.Config(config, c.ID, c.Region,
			d.api.identity.OwnRoleCredentials(servicerole.Account, role, servicerole.Session, servicerole.Principal)), nil
	}
}

// ensureServiceRoles makes the roles of EKS's own, in an account that nobody has. Credentials of accounts of Amazon's
// that an earlier version made are refused (package identity).
func (d *daemon) ensureServiceRoles(ctx context.Context) error {
	accounts, err := iamservice.Accounts(ctx, d.store)
	if err != nil {
		return err
	}
	for _, account := range accounts {
		if amazonaccount.Is(account) {
			d.log.Warn("account is one of Amazon's, which an earlier version made: its credentials are refused. To take "+
				"what is in it to another account, start that version again", "account", account)
		}
	}
	for _, role := range servicerole.Roles {
		err := iamservice.EnsureServiceRole(ctx, d.store, servicerole.Account, role.Name, servicerole.Service)
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *daemon) newEC2Client(account, region string) *ec2.Client {
	return ec2.NewFromConfig(d.eksConfig(account, region))
}

// webhooks returns what the API server of a cluster reaches the authenticator and the admission webhook with.
func (d *daemon) webhooks(c record.Cluster) (controlplane.Webhooks, error) {
	certificate, key, err := d.authority.Ensure(d.dir.Join("clusters", c.ID, "webhooks"), "client",
		authenticator.ClientLeaf(c.ID))
	if err != nil {
		return controlplane.Webhooks{}, fmt.Errorf("certificate for the webhooks of cluster %s: %w", c.Name, err)
	}
	endpoint := d.webhookEndpoint(c)
	endpoint.CertificateFile, endpoint.KeyFile = certificate, key
	authentication, err := endpoint.Kubeconfig("authenticate")
	if err != nil {
		return controlplane.Webhooks{}, err
	}
	authorization, err := endpoint.Kubeconfig("authorize")
	if err != nil {
		return controlplane.Webhooks{}, err
	}
	admission, err := endpoint.AdmissionKubeconfig()
	return controlplane.Webhooks{Authentication: authentication, Authorization: authorization, Admission: admission,
		Configurations: append(kubevpcresource.Configurations(endpoint.VPCResourceURL(), endpoint.CA),
			podidentity.Configuration(endpoint.MutateURL(), endpoint.CA), endpoint.ValidationConfiguration()),
	}, err
}

// fargateConfiguration returns the object by which the API server of a cluster asks Fargate's webhooks. A cluster gets
// it with its first Fargate profile.
func (d *daemon) fargateConfiguration(c record.Cluster) *unstructured.Unstructured {
	endpoint := d.webhookEndpoint(c)
	return kubefargate.Configuration(endpoint.FargateURL(), endpoint.CA)
}

// webhookEndpoint returns the endpoint of the webhooks for the API server of a cluster, without its certificate.
func (d *daemon) webhookEndpoint(c record.Cluster) authenticator.Endpoint {
	return authenticator.Endpoint{ClusterID: c.ID, URL: d.webhookURL(), CA: d.authority.PEM}
}

func (d *daemon) webhookURL() string { return "https://" + d.webhookAddress() }

// webhookAddress returns the address of the authenticator for API servers, on this host.
func (d *daemon) webhookAddress() string { return fmt.Sprintf("127.0.0.1:%d", d.settings.WebhookPort) }

// serveWebhooks answers the API servers until ctx ends.
func (d *daemon) serveWebhooks(ctx context.Context, l net.Listener) error {
	pair, err := d.authority.Issue(authenticator.ServerLeaf(net.IPv4(127, 0, 0, 1)))
	if err != nil {
		return err
	}
	config, err := authenticator.TLSConfig(d.authority, pki.Pair{Certificate: pair.Certificate, Key: pair.Key})
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           d.clusters.authenticator,
		TLSConfig:         config,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(l, "", "") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(shutdown) != nil {
		server.Close() // API servers keep their connections
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
