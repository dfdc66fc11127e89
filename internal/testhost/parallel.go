package testhost

import "flag"

// RunFour lets four parallel tests of this process run at a time, unless the flag -parallel says otherwise. The default
// is one for each processor, which is too few for tests that wait for servers, leases and processes. Call it in TestMain.
func RunFour() {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err) // there is no such flag: this is no test
	}
}
