package drain

import "testing"

func TestConsentCovers(t *testing.T) {
	fromDeployment := pod("shop/web-5d9-x", ownedBy("ReplicaSet", "web-5d9"), labelled("pod-template-hash", "5d9"))
	for name, test := range map[string]struct {
		consent Consent
		want    bool
	}{
		"nothing":                      {consent: nil, want: false},
		"everything":                   {consent: Consent{"*"}, want: true},
		"the pod":                      {consent: Consent{"shop/web-5d9-x"}, want: true},
		"its ReplicaSet":               {consent: Consent{"shop/web-5d9"}, want: true},
		"its Deployment":               {consent: Consent{"other/a", "shop/web"}, want: true},
		"same name, another namespace": {consent: Consent{"bank/web"}, want: false},
		"name without a namespace":     {consent: Consent{"web"}, want: false},
		"a prefix":                     {consent: Consent{"shop/we"}, want: false},
		"a pattern":                    {consent: Consent{"shop/*"}, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.consent.Covers(fromDeployment); got != test.want {
				t.Errorf("%q covers %s: got %v, want %v", test.consent, nameOf(fromDeployment), got, test.want)
			}
		})
	}
	t.Run("a ReplicaSet of its own has no Deployment", func(t *testing.T) {
		if (Consent{"shop/web"}).Covers(pod("shop/web-5d9-x", ownedBy("ReplicaSet", "web-5d9"))) {
			t.Error("the name was cut at a hash that the pod does not have")
		}
	})
	t.Run("a StatefulSet is not cut", func(t *testing.T) {
		p := pod("shop/db-0", ownedBy("StatefulSet", "db-5d9"), labelled("pod-template-hash", "5d9"))
		if (Consent{"shop/db"}).Covers(p) || !(Consent{"shop/db-5d9"}).Covers(p) {
			t.Error("a StatefulSet must be named as it is")
		}
	})
}
