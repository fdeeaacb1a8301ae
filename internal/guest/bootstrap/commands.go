package bootstrap

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/imds"
	"github.com/coracle-eks/coracle/internal/guest/node"
	"github.com/coracle-eks/coracle/internal/instancetype"
)

// ProviderID runs the program of that name: it prints aws:///ZONE/INSTANCE.
func ProviderID(stdout, stderr io.Writer) int {
	instance, err := describe()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintln(stdout, instance.ProviderID())
	return 0
}

// PrivateDNSName runs the program of that name: it prints the instance's name according to EC2.
func PrivateDNSName(stdout, stderr io.Writer) int {
	instance, err := describe()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	name, err := (node.AWS{Region: instance.Region, IMDS: &imds.Client{}}).PrivateDNSName(context.Background(),
		instance.ID)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintln(stdout, name)
	return 0
}

func describe() (node.Instance, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return node.Describe(ctx, &imds.Client{})
}

// MaxPods runs the program max-pods-calculator.sh.
// https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html#determine-max-pods
func MaxPods(args []string, stdout, stderr io.Writer) int {
	set := flag.NewFlagSet("max-pods-calculator.sh", flag.ContinueOnError)
	set.SetOutput(stderr)
	name := set.String("instance-type", "", "the instance type")
	fromIMDS := set.Bool("instance-type-from-imds", false, "take this instance's type")
	set.String("cni-version", "", "the version of the VPC CNI")
	custom := set.Bool("cni-custom-networking-enabled", false, "pods do not use the primary interface")
	prefixes := set.Bool("cni-prefix-delegation-enabled", false, "interfaces have /28 prefixes")
	enis := set.Int("cni-max-eni", 0, "at most so many interfaces")
	allowed := set.Bool("show-max-allowed", false, "without the recommended limit of 110 (250 from 30 CPUs)")
	if err := set.Parse(args); err != nil {
		return 1
	}
	if *fromIMDS {
		instance, err := describe()
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		*name = instance.Type
	}
	t, ok := instancetype.Get(*name)
	if !ok {
		fmt.Fprintf(stderr, "unknown instance type %q; give --instance-type or --instance-type-from-imds\n", *name)
		return 1
	}
	count := t.MaxENIs
	if *enis > 0 {
		count = min(count, *enis)
	}
	if *custom {
		count--
	}
	each := t.IPv4PerENI - 1
	if *prefixes {
		each *= 16
	}
	pods := count*each + 2
	limit := 110
	if t.VCPU > 30 {
		limit = 250
	}
	if !*allowed {
		pods = min(pods, limit)
	}
	fmt.Fprintln(stdout, pods)
	return 0
}
