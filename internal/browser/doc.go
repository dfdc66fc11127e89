// Package browser tries the example apps in a real browser: Chromium, driven by chromedp. It is a module of its own, so that
// what chromedp requires stays out of the library's go.mod. Everything is in its tests.
//
// TEST_CHROMIUM names the browser's program. Without it, it is chromium, chromium-browser or google-chrome of the PATH.
// Without a browser one test fails, TestChromiumAvailable, and prints how to install it. The tests that need a browser are
// skipped and say so. A browser that is there and does not start fails every test.
package browser
