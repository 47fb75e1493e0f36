// Package scene has the data from which a picture of the screen is drawn. These are the time span on the screen with
// its threads, figures and findings, the user's selection, and the layout. Views read the scene, and a Host (the screen
// around a view) changes it.
package scene
