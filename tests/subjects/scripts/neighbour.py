from one_subject import only
